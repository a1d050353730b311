"""One file a scenario. A *token* scenario is a script, `play(ledger, text)`, that sends requests; how they are
counted is in token_scenario.py. Every other scenario has `run(bench, result)` and fills `result` as it goes, so
that an interrupted run leaves what it had. Each has NAME, GROUP and TITLE (one line for tables).
"""
from importlib import import_module

NAMES = (
    "exact_repeat", "fan_out_1", "fan_out_4", "agent_loop", "alternate_2", "alternate_8", "title_jobs", "rewind",
    "disconnect", "no_reasoning", "long_edit", "reordered_documents", "memory_pressure", "restart",
    "repeat_latency", "cold_prefill", "decode",
    "bookkeeping", "restore", "memory", "bit_price", "hot_or_host", "idle_prefill", "chunk_size",
    "parity",
    "prefix_reuse",
    "use_cases",
    "stages",
)
GROUPS = ("tokens", "speed", "cost", "parity", "prefix", "use", "stages")


def load(name):
    return import_module(f"scenarios.{name}")


def select(wanted):
    """Modules of the named scenarios or groups, in our order. Raises ValueError naming an unknown one."""
    modules = [load(name) for name in NAMES]
    known = set(NAMES) | set(GROUPS) | {"all"}
    for name in wanted:
        if name not in known:
            raise ValueError(f"unknown scenario '{name}'; there are: all, {', '.join(GROUPS + NAMES)}")
    return [m for m in modules if "all" in wanted or m.NAME in wanted or m.GROUP in wanted]
