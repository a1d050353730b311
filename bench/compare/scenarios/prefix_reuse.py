"""Time against prefix length, generated tokens and clients at once: cold, repeated exactly, and extended.

What is sent is told in prefix_cell.py, how it is judged in prefix_rows.py. Each cell has a prefix length and a number
of clients (as many lanes); run.py's --lengths, --generate and --concurrency choose. The lanes are just large enough.
Long prefixes get fewer rounds: almost all of a cell's time goes into cold prompts.
"""
import time

import prefix_answers
import prefix_rows
from duel import Duel
from prefix_cell import Cell

NAME, GROUP, TITLE = "prefix_reuse", "prefix", "time against prefix length"
LONG, ROUNDS_OF_LONG = 4096, 3


def run(bench, result):
    result["rows"], result["cells"], reasons = {}, {}, []
    for clients in bench.axes.concurrency:
        for length in bench.axes.lengths:
            cell = Cell(length, bench.axes.generate, clients, bench.seed)
            if cell.context > bench.settings.context:
                result["rows"] |= prefix_rows.that_do_not_fit(cell, bench.settings.context)
                continue
            told = measure(bench, result, cell)
            reasons += [f"{length} tokens, {clients} at once: {reason}" for reason in told]
            bench.save()
    result["gate"] = {"met": not reasons, "why_not": reasons}


def measure(bench, result, cell):
    """Adds the cell's rows, commands, bytes and answers to `result`; returns what is wrong with its answers."""
    started = time.monotonic()
    rounds = min(bench.rounds, ROUNDS_OF_LONG) if cell.length >= LONG else bench.rounds
    best = None if bench.any_position else bench.best    # of what best settings change such a model has nothing
    with Duel(bench.baseline, bench.ours, bench.settings_for(lanes=cell.clients, context=cell.context), c=best) as duel:
        by_label = {server.label: server for role, server in duel.servers.items() if role != "twin"}
        context = min(positions(server) for server in by_label.values())
        if context < cell.context:
            result["rows"] |= prefix_rows.that_do_not_fit(cell, context)
            return []
        name = f"{cell.length}/{cell.clients}"
        samples = duel.collect(cell.leg, rounds, max(1, rounds // 2), lambda note: bench.progress(f"{name}: {note}"))
        opponents = {server.label: f"{role}_b" for role, server in duel.servers.items() if role in ("a", "c")}
        answers = {"clients": cell.clients,
                   "warm as cold": {label: prefix_answers.same_warm_as_cold(cell, label) for label in by_label},
                   "between": prefix_answers.between(cell, duel.servers["b"], duel.servers["a"])}
        result["cells"][name] = {
            "rounds": rounds, "answers": answers, "seconds": round(time.monotonic() - started),
            "commands": {label: server.told_command() for label, server in by_label.items()},
            "memory": {label: server.memory() for label, server in by_label.items()},
            "cache_bytes": {label: prefix_bytes(server, cell, bench) for label, server in by_label.items()}}
    result["rows"] |= prefix_rows.of_cell(cell, samples, opponents)
    return prefix_answers.wrong(answers)


def positions(server):
    """Of a lane, which may be fewer than asked for: a model has an end of its own."""
    return server.json("GET", "/props")["default_generation_settings"]["n_ctx"]


def prefix_bytes(server, cell, bench):
    """What holding the cell's prefix takes. skippy's is measured: one more prefix, sent after the timing. llama-server
    keeps whole states; theirs is derived from the family's formulas."""
    if server.contestant.kind != "skippy":
        return {"bytes": bench.state.of(cell.length, "--swa-full" in server.command), "source": "derived"}
    before = host_bytes(server)
    server.complete(cell.prefix(server, "for its bytes"))
    return {"bytes": host_bytes(server) - before, "source": "measured"}


def host_bytes(server):
    return server.json("GET", "/cache")["tiers"]["host"]["physical_bytes"]
