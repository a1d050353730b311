"""Cache bytes of twelve prompts over one 2,048-token prefix, and process memory under a small cap."""
from machine import resident_bytes
from servers import Server
from text import prompt_of

NAME, GROUP, TITLE = "memory", "cost", "memory"
PREFIX, TAIL, PROMPTS = 2048, 96, 12
TREE_SLACK = 1.03          # pages that two branches begin
CAP_MIB, SLACK_MIB = 64, 48
PRESSURE_PROMPTS, PRESSURE_LENGTH = 30, 1024


def run(bench, result):
    result["rows"] = {"shared": shared(bench, result)}
    bench.save()
    result["rows"]["process"] = process(bench, result)


def shared(bench, result):
    with Server(bench.ours, bench.settings_for(lanes=1)) as server:
        result.setdefault("commands", {})["shared"] = server.command
        prefix = prompt_of(server, PREFIX, bench.seed, NAME, "prefix")
        stored, prompts = [], []
        for i in range(PROMPTS):
            prompts.append(prefix + prompt_of(server, TAIL + 1, bench.seed, NAME, "tail", i)[1:])
            server.complete(prompts[-1])
            stored.append(server.json("GET", "/cache")["tiers"]["host"]["bytes_by_component"])
    one, all_of_them = stored[0], stored[-1]
    tree = len(set().union(*[{tuple(p[:i + 1]) for i in range(PREFIX - 1, len(p))} for p in prompts])) + PREFIX - 1
    row_bytes = one["kv"] / len(prompts[0])
    row = {"title": f"{PROMPTS} prompts of {len(prompts[0])} tokens over one {PREFIX}-token prefix, KV bytes held",
           "bytes_after_each_prompt": stored, "tokens_of_the_tree": tree}
    others = sum(all_of_them.values()) - all_of_them["kv"]
    if row_bytes == 0:   # nothing but recurrent state: there are no rows to share
        return {**row, "value": f"none; {_mib(others)} of snapshots and logits", "bound": "", "gate": {"met": True}}
    ideal = tree * row_bytes
    separately = sum(len(p) for p in prompts) * row_bytes
    return {**row, "value": f"{_mib(all_of_them['kv'])} (+ {_mib(others)} windows, snapshots, logits)",
            "bound": f"{_mib(ideal)} for prefix once + tails; {_mib(separately)} without sharing",
            "ideal_bytes": ideal, "gate": {"met": all_of_them["kv"] <= TREE_SLACK * ideal}}


def process(bench, result):
    """The bound comes from llama-server: its memory with a full context and no cache is model + context."""
    settings = bench.settings_for(lanes=1, context=4096)
    with Server(bench.without_cache(bench.baseline), settings) as server:
        result["commands"]["process, llama-server"] = server.command
        server.complete(prompt_of(server, settings.context - 8, bench.seed, NAME, "full"))
        base = resident_bytes(server.pid)["peak"]
    with Server(bench.ours, bench.settings_for(lanes=1, context=4096, cache_ram=CAP_MIB)) as server:
        result["commands"]["process"] = server.command
        for i in range(PRESSURE_PROMPTS):
            server.complete(prompt_of(server, PRESSURE_LENGTH, bench.seed, NAME, "pressure", i))
            bench.progress(f"pressure {i + 1}/{PRESSURE_PROMPTS}")
        server.complete(prompt_of(server, settings.context - 8, bench.seed, NAME, "full"))
        used = resident_bytes(server.pid)["peak"]
        host = server.json("GET", "/cache")["tiers"]["host"]
    bound = base + (CAP_MIB + SLACK_MIB) * 2**20
    return {"title": f"process after {PRESSURE_PROMPTS} prompts, cache cap {CAP_MIB} MiB, peak resident",
            "value": f"{_mib(used)} (cache {_mib(host['physical_bytes'])})",
            "bound": f"{_mib(bound)}: llama-server without cache {_mib(base)} + cap + {SLACK_MIB} MiB",
            "peak_bytes": used, "bound_bytes": bound, "cache": host,
            "gate": {"met": used <= bound and host["physical_bytes"] <= CAP_MIB * 2**20}}


def _mib(count):
    return f"{count / 2**20:.1f} MiB"
