"""The same model whole, in three stages as processes of their own, and in llama-server over two rpc-servers.

Told, not judged: what cutting costs on one machine, where it brings nothing. Every stage computes in turn, so the cores
do the same work; what comes on top is a round trip a stage and step, and rows of activations.
"""
import os
import subprocess
import tempfile

import stats
from contestants import HELPERS, PORT, Contestant, stage_command
from duel import Duel, judged
from prefix_cell import Cell
from servers import BenchError

NAME, GROUP, TITLE = "stages", "stages", "a model in three stages"
STAGES, LENGTH, GENERATE = 3, 512, (1, 16)
NOISE_LIMIT = 0.05


def run(bench, result):
    result["rows"] = {}
    cell = Cell(LENGTH, GENERATE, 1, bench.seed)
    settings = bench.settings_for(lanes=1, context=cell.context)
    with tempfile.TemporaryDirectory() as folder:
        split = cut(bench, settings, folder)
        with Duel(split, bench.ours, settings, c=over_rpc(bench, settings)) as duel:
            by_label = {server.label: server for role, server in duel.servers.items() if role != "twin"}
            samples = duel.collect(cell.leg, bench.rounds, max(1, bench.rounds // 2), bench.progress)
            result["commands"] = {label: [part.replace(folder, "PACKAGES") for part in server.told_command()]
                                  for label, server in by_label.items()}
            result["memory"] = {label: server.memory() for label, server in by_label.items()}
        result["answers_equal"] = equal_answers(cell)
    for step, generated in cell.steps:
        name = step if step == "cold" else f"{step}/{generated}"
        clock = "total" if generated > 1 else "first"
        result["rows"][name] = row(step, generated, clock, samples[f"{name} {clock}"])


def cut(bench, settings, folder):
    done = subprocess.run([bench.ours.binary, "stage", "split", "--model", settings.model, "--out", folder, "--auto",
                           str(STAGES), "--no-check"], capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"the model cannot be cut: {done.stderr.strip()}")
    packages = sorted(name for name in os.listdir(folder) if name.startswith("stage-"))
    helpers = tuple(stage_command(bench.ours.binary, os.path.join(folder, name), settings) for name in packages)
    return Contestant("skippy, three stages", "stages", bench.ours.binary, helpers=helpers, packages=folder)


def over_rpc(bench, settings):
    """llama.cpp's own way to more than one machine; its rpc-server lies beside llama-server."""
    binary = os.path.join(os.path.dirname(bench.baseline.binary), "rpc-server")
    if not os.path.exists(binary):
        raise BenchError(f"no such file: {binary}; build it with 'make llama-server'")
    helper = (binary, "-H", "127.0.0.1", "-p", PORT, "-t", str(settings.threads))
    return Contestant("llama-server over RPC", "llama-server", bench.baseline.binary, ("--rpc", HELPERS),
                      helpers=(helper, helper))


def equal_answers(cell):
    """Of the split model's answers those that are the whole model's: (equal, compared)."""
    pairs = [(told["skippy"], told["skippy, three stages"]) for told in cell.answers.values()
             if {"skippy", "skippy, three stages"} <= told.keys()]
    return sum(ours == split for ours, split in pairs), len(pairs)


def row(step, generated, clock, samples):
    """`a`: in stages, `b`: whole, `c`: over RPC; ratios are times as fast as in stages."""
    whole = judged(samples, NOISE_LIMIT)
    rpc = stats.spread([four[0] / four[1] for four in samples["c_b"]])
    split = whole["a"]["median"]
    return {"title": f"{step}, {LENGTH} tokens, {generated} generated", "unit": "ms", "clock": clock,
            "whole": whole, "rpc_against_whole": rpc.as_dict(), "samples": samples,
            "medians": {"whole": whole["b"]["median"], "stages": split,
                        "rpc": stats.median([t for four in samples["c_b"] for t in (four[0], four[3])])}}
