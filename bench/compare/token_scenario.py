"""Counts a token scenario: a fresh server of each kind plays the same script, several rounds with other texts.

A scenario's module has LANES, ROUNDS and `play(ledger, text)`, and may have
    settings(bench)  what the servers get, where LANES is not all
    BEST             flags that llama-server's best settings have in this scenario, beside those it always has
    GATE             "ideal" (the default): held against the ideal and llama-server; "peer": against llama-server alone;
                     "told": not judged
    NOTE             what a reader must know, below the table
"""
import cache_bytes
from http_client import BenchError
from labels import COLD
from ledger import Ledger, compare_answers
from report.verdicts import inexact
from servers import Server
from text import Text


def run(bench, result, scenario):
    settings = scenario.settings(bench) if hasattr(scenario, "settings") else bench.settings_for(lanes=scenario.LANES)
    contestants = bench.contestants_of(scenario)
    result["contestants"] = {}
    if hasattr(scenario, "NOTE"):
        result["note"] = scenario.NOTE
    entries = {contestant.label: [] for contestant in contestants}
    for round_number in range(min(bench.rounds, scenario.ROUNDS)):
        for contestant in contestants:
            ledger = play_round(bench, result, scenario, contestant, settings, round_number)
            entries[contestant.label] += ledger.entries
    ours, *others = [contestant.label for contestant in contestants]
    result["answers"] = {other: compare_answers(entries[ours], entries[other]) for other in others}
    if bench.verify:
        result["answers"][COLD] = against_cold(bench, settings, entries[ours])
    kind = getattr(scenario, "GATE", "ideal")
    if kind != "told":
        result["gate"] = gate(result, ours, others, bench, kind)


def play_round(bench, result, scenario, contestant, settings, number):
    """Adds the round to `result`. When the server is lost, what it had answered goes to result["partial"]."""
    with Server(contestant, settings) as server:
        ledger = Ledger(server)
        try:
            scenario.play(ledger, Text(bench.seed, scenario.NAME, number, scale=bench.text_scale))
            told = {**ledger.summary(), "cache_bytes": cache_bytes.held_by(server, bench.state),
                    "memory": server.memory()}
        except BenchError as error:
            result.setdefault("partial", []).append({
                "contestant": contestant.label, "round": number, "error": str(error),
                **stored(ledger, ledger.partial_summary())})
            raise
        row = result["contestants"].setdefault(contestant.label, {"command": server.told_command(), "rounds": []})
    row["rounds"].append(stored(ledger, told))
    bench.progress(f"{contestant.label}: {told['evaluated']} evaluated, ideal {told['ideal']}")
    bench.save()
    return ledger


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


def gate(result, ours, others, bench, kind="ideal"):
    """1.00 for attention-only families, else at most one chunk more a branch; never more than llama-server at its best
    settings (2 % for other answers in the history), where that gives the answers of a cold run."""
    mine = totals(result["contestants"][ours])
    allowed = mine["ideal"] * 1.005
    if not bench.any_position:
        allowed = mine["ideal"] + bench.settings.ubatch * max(1, mine["branches"])
    reasons = []
    if kind == "ideal" and mine["evaluated"] > allowed:
        reasons.append(f"{mine['evaluated']} evaluated, {allowed:.0f} allowed by the ideal")
    exact = [other for other in others if not inexact(result.get("answers", {}), other)]
    for other in exact:
        theirs = totals(result["contestants"][other])
        if mine["evaluated"] / mine["ideal"] > 1.02 * theirs["evaluated"] / theirs["ideal"]:
            reasons.append(f"more than {other}")
    for row in result["contestants"][ours]["rounds"]:
        reasons += row["problems"]
    return {"met": not reasons, "why_not": sorted(set(reasons))}


KEPT = ("ideal", "branch", "abandoned", "cached", "evaluated", "generated", "first_ms", "total_ms", "hit_kind",
        "miss_reason")


def stored(ledger, summary):
    """A round for the result file: of every request a few numbers, without its token ids."""
    seconds = sum(entry.get("total_ms", 0) for entry in ledger.entries) / 1000
    return {**summary, "seconds": round(seconds, 3), "entries": [_few(entry) for entry in ledger.entries]}


def _few(entry):
    kept = {key: entry[key] for key in KEPT if entry.get(key) is not None and entry.get(key) is not False}
    rounded = {key: round(value, 1) if isinstance(value, float) else value for key, value in kept.items()}
    return {"prompt_tokens": len(entry["prompt"]), **rounded}
