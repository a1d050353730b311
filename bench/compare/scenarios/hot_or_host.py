"""What going on in a lane that still holds the conversation saves against importing it from host pages, one lane.

Before each timed request the conversation gets new last words of its own. *Hot*: the timed request follows at once.
*Host*: another prompt takes the lane in between. Both evaluate the same tokens.
"""
import stats
from machine import cpu_seconds
from scenarios.restore import Copies, restored_bytes
from servers import BenchError, Server
from text import prompt_of

NAME, GROUP, TITLE = "hot_or_host", "cost", "hot lane against host pages"
LENGTHS = (128, 1024, 4096)
NEW_TOKENS = 8


def run(bench, result):
    result["rows"] = {}
    with Server(bench.ours, bench.settings_for(lanes=1, context=LENGTHS[-1] + 512)) as server:
        result["commands"] = {server.label: server.command}
        for length in LENGTHS:
            base = prompt_of(server, length, bench.seed, NAME, length)
            server.complete(base)
            for kind in ("extend", "repeat"):
                samples = measure(bench, server, base, kind)
                result["rows"][f"{kind}_{length}"] = {"title": f"{TITLE}: {kind}, {length} tokens", "bound": "",
                                                      **judged(samples)}
                bench.save()


def measure(bench, server, base, kind):
    samples, copies = {"hot": [], "host": []}, None
    for i in range(bench.rounds):
        for leg, tier in enumerate(("hot", "host", "host", "hot")):
            sample = timed(server, base, kind, tier, (bench.seed, NAME, len(base), kind, i, leg))
            if tier == "host":
                copies = copies or Copies(sample["bytes"])
                sample["memcpy_ms"] = copies.milliseconds(sample["bytes"])
            samples[tier].append(sample)
        bench.progress(f"{kind}, {len(base)} tokens, {i + 1}/{bench.rounds}")
    return samples


def timed(server, base, kind, tier, seed):
    prompt = base + prompt_of(server, NEW_TOKENS, *seed, "so far")[1:]
    server.complete(prompt)
    if tier == "host":
        server.complete(prompt_of(server, 64, *seed, "takes the lane"))
    if kind == "extend":
        prompt = prompt + prompt_of(server, NEW_TOKENS, *seed, "new")[1:]
    # The first token of a repeat comes from the stored logits; the second is the first that needs the state.
    tokens = 1 if kind == "extend" else 2
    server.settle()
    restored, cpu = restored_bytes(server), cpu_seconds(server.pid)
    reply = server.complete(prompt, tokens, ignore_eos=True)
    cpu, restored = cpu_seconds(server.pid) - cpu, restored_bytes(server) - restored
    if (restored > 0) != (tier == "host"):
        raise BenchError(f"a request meant to be served {tier} restored {restored} bytes: {reply.skippy}")
    return {"ms": reply.total_ms, "cpu_ms": 1000 * cpu, "restore_ms": reply.skippy["restore_ms"], "bytes": restored,
            "evaluated": reply.evaluated}


def judged(samples):
    def rounds(field):
        hot, host = ([s[field] for s in samples[tier]] for tier in ("hot", "host"))
        return [(hot[i] + hot[i + 1], host[i] + host[i + 1]) for i in range(0, len(hot), 2)]

    medians = {tier: {field: stats.median([sample[field] for sample in told]) for field in told[0]}
               for tier, told in samples.items()}
    cpu = stats.spread([host / hot for hot, host in rounds("cpu_ms")])
    wall = stats.spread([host / hot for hot, host in rounds("ms")])
    hot_ms, host = medians["hot"]["cpu_ms"], medians["host"]
    return {"value": f"host takes {cpu.median:.2f} times hot's CPU time ({cpu.sure_low:.2f} to {cpu.sure_high:.2f}): "
                     f"{host['cpu_ms']:.2f} ms against {hot_ms:.2f}; restore {host['restore_ms']:.2f}, memcpy of "
                     f"{host['bytes'] / 2**20:.2f} MiB {host['memcpy_ms']:.2f}",
            "host_over_hot_cpu": cpu.as_dict(), "host_over_hot": wall.as_dict(), "medians": medians, "samples": samples}
