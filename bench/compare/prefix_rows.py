"""Judges what a prefix_reuse cell measured: a row a step.

A ratio is time(llama-server) / time(skippy), of the time to the first token and of the total, against llama-server as
it comes and, where they differ, at its best settings. Two rules say what a ratio is worth (stats.py): refusal_of_ratio,
whether it is given at all, and verdict, whether it reaches the target: the interval of its median, widened by what
llama-server differs from itself, must lie above. The time to the first token is judged. What only computes, the cold
step, is judged by the servers' CPU time where wall time leaves it undecided. A warm step must not evaluate more tokens
than llama-server does.
"""
import stats
from duel import compared
from stats import Spread, median

REPEAT_TARGET = 5.0    # an exact repeat of the shortest kind: 128 tokens, one generated, one client
TARGET = 0.97          # everything else: no later than llama-server, 3 % for noise
NOISE_LIMIT = 0.05     # two instances of one server differ by 2-4 % here, by how their memory happens to lie


def target_of(length, step, generated, clients):
    return REPEAT_TARGET if (length, step, generated, clients) == (128, "repeat", 1, 1) else TARGET


def key_of(length, generated, clients, step):
    return f"{length}/{generated}/{clients}/{step}"


def of_cell(cell, samples, opponents):
    """{key: row}. `opponents`: {label: the samples' pair, "a_b" or "c_b"}."""
    rows = {}
    for step, generated in cell.steps:
        row = _axes(cell, step, generated)
        name = step if step == "cold" else f"{step}/{generated}"
        clocks = {clock: samples[f"{name} {clock}"] for clock in ("first", "total", *["cpu"] * (step == "cold"))}
        row["against"] = {label: {clock: _timed(of_clock, pair, row["target"]) for clock, of_clock in clocks.items()}
                          for label, pair in opponents.items()}
        row["same_against_same"] = {clock: _same(of_clock).as_dict() for clock, of_clock in clocks.items()}
        row["evaluated"] = {label: evaluated(cell, label, name) for label in (*opponents, "skippy")}
        row["hits"] = hits(cell, "skippy", name)
        row["verdict"], row["why"] = judge(row)
        row["samples"] = clocks
        rows[key_of(cell.length, generated, cell.clients, step)] = row
    return rows


def that_do_not_fit(cell, context):
    """The same rows, with nothing measured."""
    return {key_of(cell.length, generated, cell.clients, step):
            {**_axes(cell, step, generated), "verdict": "does not fit",
             "why": [f"a lane needs {cell.context} positions, {context} are there"]}
            for step, generated in cell.steps}


def _axes(cell, step, generated):
    clients = f", {cell.clients} clients" if cell.clients > 1 else ""
    return {"title": f"{step}, {cell.length} tokens, {generated} generated{clients}", "unit": "ms", "step": step,
            "prompt_tokens": cell.length, "generated": generated, "concurrency": cell.clients,
            "target": target_of(cell.length, step, generated, cell.clients)}


def _same(samples):
    return stats.spread([stats.round_ratio(*four) for four in samples["a_a"]])


def _timed(samples, pair, target):
    timed = compared(samples[pair])
    ratio, same = Spread(**timed["ratio"]), _same(samples)
    return {**timed, "sure": stats.widened(ratio, same), "refused": stats.refusal_of_ratio(ratio, same, NOISE_LIMIT),
            "verdict": stats.verdict(ratio, same, NOISE_LIMIT, target)}


def evaluated(cell, label, name):
    """Prompt tokens evaluated by one send of the step, all clients together: the median of the legs."""
    return median([sum(reply.evaluated for reply in replies) for replies in cell.told[label, name]])


def hits(cell, label, name):
    """How often each kind of hit was told, and the cached tokens by tier of all requests."""
    kinds, tiers = {}, {}
    for replies in cell.told[label, name]:
        for reply in replies:
            kind = reply.skippy.get("hit_kind", "unknown")
            kinds[kind] = kinds.get(kind, 0) + 1
            for tier, tokens in reply.cached_by_tier().items():
                tiers[tier] = tiers.get(tier, 0) + tokens
    return {"kinds": kinds, "cached_by_tier": tiers}


def judge(row):
    """The row's verdict, the worst of all opponents', and what it was missed by."""
    verdicts, why = [], []
    for label, clocks in row["against"].items():
        word, by = clocks["first"]["verdict"], ""
        if word == "undecided" and "cpu" in clocks and clocks["cpu"]["verdict"] != "undecided":
            word, by = clocks["cpu"]["verdict"], " by CPU time"
        ratio = clocks["cpu" if by else "first"]["ratio"]
        verdicts.append(word + by)
        if word == "MISSED":
            why.append(f"{ratio['median']:.2f} times as fast as {label}{by}, at least {row['target']} wanted")
        elif word == "undecided":
            why.append(f"against {label}: {clocks['first']['refused'] or 'the interval has the target in it'}")
        ours, theirs = row["evaluated"]["skippy"], row["evaluated"][label]
        if row["step"] != "cold" and ours > theirs:
            verdicts.append("MISSED")
            why.append(f"evaluated {ours:g} tokens, {label} {theirs:g}")
    worst = ("MISSED", "MISSED by CPU time", "undecided", "met by CPU time", "met")
    return min(verdicts, key=worst.index), why
