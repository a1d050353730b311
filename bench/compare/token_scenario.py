"""Counts a token scenario: a fresh server of each kind plays the same script, several rounds with other texts."""
from ledger import Ledger, compare_answers
from servers import Server
from text import Text


def run(bench, result, scenario):
    settings = bench.settings_for(lanes=scenario.LANES)
    result["contestants"] = {}
    entries = {}
    for round_number in range(min(bench.rounds, scenario.ROUNDS)):
        for contestant in bench.contestants:
            with Server(contestant, settings) as server:
                ledger = Ledger(server)
                scenario.play(ledger, Text(bench.seed, scenario.NAME, round_number))
                summary = ledger.summary()
                summary["seconds"] = sum(entry.get("total_ms", 0) for entry in ledger.entries) / 1000
                row = result["contestants"].setdefault(contestant.label, {"command": server.command, "rounds": []})
            row["rounds"].append({**summary, "entries": [_stored(entry) for entry in ledger.entries]})
            entries.setdefault(contestant.label, []).extend(ledger.entries)
            bench.progress(f"{contestant.label}: {summary['evaluated']} evaluated, ideal {summary['ideal']}")
            bench.save()
    ours, *others = bench.contestants
    result["answers"] = {other.label: compare_answers(entries[ours.label], entries[other.label]) for other in others}
    if bench.verify:
        result["answers"]["skippy, cold"] = against_cold(bench, settings, entries[ours.label])
    result["gate"] = gate(result, ours.label, [other.label for other in others], bench)


def against_cold(bench, settings, entries):
    """The same prompts again, to our own server without a cache."""
    cold = []
    with Server(bench.ours_without_cache, settings) as server:
        for i, entry in enumerate(entries):
            if "tokens" in entry:
                reply = server.complete(entry["prompt"], max(1, len(entry["tokens"])), logprobs=2)
                cold.append({**entry, "tokens": reply.tokens, "gaps": reply.gaps})
            bench.progress(f"cold {i + 1}/{len(entries)}")
    return compare_answers(entries, cold)


def totals(row):
    """Sums over rounds: evaluated, ideal, branches, requests."""
    return {key: sum(r[key] for r in row["rounds"]) for key in ("evaluated", "ideal", "branches", "requests")}


def gate(result, ours, others, bench):
    """What issue asks: 1.00 for attention-only families, else at most one chunk more a branch; never more than
    llama-server at its best settings (2 % for other answers in the history)."""
    mine = totals(result["contestants"][ours])
    allowed = mine["ideal"] * 1.005
    if not bench.any_position:
        allowed = mine["ideal"] + bench.settings.ubatch * max(1, mine["branches"])
    reasons = []
    if mine["evaluated"] > allowed:
        reasons.append(f"{mine['evaluated']} evaluated, {allowed:.0f} allowed by the ideal")
    for other in others:
        theirs = totals(result["contestants"][other])
        if mine["evaluated"] / mine["ideal"] > 1.02 * theirs["evaluated"] / theirs["ideal"]:
            reasons.append(f"more than {other}")
    for row in result["contestants"][ours]["rounds"]:
        reasons += row["problems"]
    return {"met": not reasons, "why_not": sorted(set(reasons))}


def _stored(entry):
    """Without the token ids: their number is enough, and the file stays readable."""
    kept = {key: value for key, value in entry.items() if key not in ("prompt", "tokens", "gaps")}
    return {"prompt_tokens": len(entry["prompt"]), **kept}
