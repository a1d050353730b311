"""The prefill chunk (-ub) is also the cache's grid: the speed of a cold prefill and the cost of recording, against the
tokens that hybrids, and all models with `--exactness bit`, evaluate again."""
from contextlib import ExitStack

import stats
from ledger import Ledger
from machine import cpu_seconds
from scenarios import agent_loop, restore, rewind
from servers import Server
from text import Text, prompt_of

NAME, GROUP, TITLE = "chunk_size", "cost", "prefill chunk"
CHUNKS = (64, 128, 256, 512)
REFERENCE = 256
LENGTH = 2048


def run(bench, result):
    result["rows"] = {}
    settings = {chunk: bench.settings_for(lanes=1, ubatch=chunk) for chunk in CHUNKS}
    played = {chunk: evaluated(bench, settings[chunk]) for chunk in CHUNKS}
    samples = {chunk: [] for chunk in CHUNKS}
    with ExitStack() as stack:
        servers = {chunk: stack.enter_context(Server(bench.ours, settings[chunk])) for chunk in CHUNKS}
        result["commands"] = {f"-ub {chunk}": server.command for chunk, server in servers.items()}
        for i in range(bench.rounds):
            for chunk in CHUNKS[::1 if i % 2 else -1]:
                samples[chunk].append(measure(bench, servers[chunk], i))
                bench.progress(f"-ub {chunk}, {i + 1}/{bench.rounds}")
            for chunk in CHUNKS:
                result["rows"][str(chunk)] = {"title": f"{TITLE} -ub {chunk}", "bound": "",
                                              **judged(samples[chunk], samples[REFERENCE], played[chunk])}
            bench.save()


def measure(bench, server, key):
    """A cold prompt; and the same with a few words more, restored after another prompt took the lane."""
    prompt = prompt_of(server, LENGTH, bench.seed, NAME, key)
    server.settle()
    before = cpu_seconds(server.pid)
    cold = server.complete(prompt)
    cpu = cpu_seconds(server.pid) - before
    server.complete(prompt_of(server, 64, bench.seed, NAME, "takes the lane", key))
    again = server.complete(prompt + prompt_of(server, 8, bench.seed, NAME, "more", key)[1:])
    return {"cold_ms": cold.total_ms, "cold_cpu_ms": 1000 * cpu, "record_ms": cold.skippy["record_ms"],
            "restore_ms": again.skippy["restore_ms"]}


def evaluated(bench, settings):
    """By scenario and exactness: tokens evaluated, the ideal, and the bytes of the cache afterwards."""
    told = {}
    for exactness in ("token", "bit"):
        for scenario in (rewind, agent_loop):
            with Server(bench.ours.with_flags("--exactness", exactness), settings) as server:
                ledger = Ledger(server)
                scenario.play(ledger, Text(bench.seed, scenario.NAME, 0))
                summary = ledger.summary()
                told[f"{scenario.NAME}, {exactness}"] = {
                    "evaluated": summary["evaluated"], "ideal": summary["ideal"],
                    "bytes": server.metric("skippy_cache_physical_bytes")}
            bench.progress(f"-ub {settings.ubatch}, {scenario.NAME}, {exactness}")
    return told


def judged(samples, reference, played):
    speed = stats.spread([b["cold_cpu_ms"] / a["cold_cpu_ms"] for a, b in zip(samples, reference)])
    medians = {field: stats.median([sample[field] for sample in samples]) for field in samples[0]}
    told = "; ".join(f"{name}: {one['evaluated'] / one['ideal']:.2f} of ideal, {one['bytes'] / 2**20:.1f} MiB"
                     for name, one in played.items())
    return {"value": f"{speed.median:.2f} times as fast as -ub {REFERENCE} by CPU time ({speed.sure_low:.2f} to "
                     f"{speed.sure_high:.2f}); record {medians['record_ms']:.1f} ms; {told}",
            "speed_cpu": speed.as_dict(), "medians": medians, "evaluated": played, "samples": samples}
