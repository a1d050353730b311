"""Hand-made results of the scenario prefix_reuse."""
import stats
from duel import compared

BEST = "llama-server, best settings"


def timed(theirs, ours, wide=False, verdict="met"):
    """Of three rounds in which both took just that long; `wide`: a machine too noisy to say which is faster."""
    told = compared([[theirs, ours, ours, theirs]] * 3)
    same = stats.spread([0.2, 1.0, 5.0] if wide else [1.0])
    ratio = stats.Spread(**told["ratio"])
    return {**told, "sure": stats.widened(ratio, same), "verdict": verdict,
            "refused": stats.refusal_of_ratio(ratio, same, 0.05)}


def row(length, generated, step, against, verdict="met", clients=1):
    """`against`: {label: timed}"""
    return {"title": f"{step}, {length} tokens, {generated} generated", "unit": "ms", "step": step,
            "prompt_tokens": length, "generated": generated, "concurrency": clients, "target": 0.97, "verdict": verdict,
            "why": [], "against": {label: {"first": one, "total": one} for label, one in against.items()},
            "evaluated": {**{label: 1.0 for label in against}, "skippy": 0.0},
            "hits": {"kinds": {}, "cached_by_tier": {}}}


def cell(length):
    partings = [{"step": "cold", "position": 3, "gap": 0.1}]
    warm = {"llama-server": {"compared": 4, "equal": 2}, "skippy": {"compared": 3, "equal": 3}}
    return {"answers": {"clients": 1, "warm as cold": warm,
                        "between": {"compared": 2, "equal": 1, "partings": partings}},
            "memory": {"skippy": {"peak": 2**20}}, "commands": {}, "rounds": 3,
            "cache_bytes": {"llama-server": {"bytes": length * 1024, "source": "derived"},
                            "skippy": {"bytes": length * 2048, "source": "measured"}}}


def run(rows, family="llama", synthetic=False, policy="resident_kv", file="real.gguf", status="done", **more):
    lengths = {one["prompt_tokens"] for one in rows if "against" in one}
    keyed = {f"{one['prompt_tokens']}/{one['generated']}/{one['concurrency']}/{one['step']}": one for one in rows}
    scenario = {"group": "prefix", "title": "time against prefix length", "status": status, "rows": keyed,
                "cells": {f"{length}/1": cell(length) for length in lengths},
                "gate": {"met": True, "why_not": []}, **more}
    return {"format": 1, "complete": True, "started": "2030-01-02T03:04:05Z",
            "command": ["bench/compare/run.py", "--model", file], "machine": {"cpu": "a CPU", "cores": 2},
            "skippy": {"commit": "0123456789ab"}, "llama_server": {"version": "b1"},
            "model": {"file": file, "synthetic": synthetic, "family": family, "policy": policy},
            "scenarios": {"prefix_reuse": scenario}}


def whole(theirs=10.0, ours=2.0, lengths=(128, 4096), **more):
    """All steps of one model, as the production table has them."""
    rows = [row(length, 16, "cold", {"llama-server": timed(100.0, 100.0)}) for length in lengths]
    rows += [row(length, generated, step, {"llama-server": timed(theirs, ours)})
             for length in lengths for generated in (1, 16) for step in ("repeat", "extend")]
    return run(rows, **more)
