#!/usr/bin/env python3
"""Replays synthetic traces under eviction policies and caps and stores the results under bench/results/replay/.

    tools/bench_replay.py [--skippy build/skippy] [--requests 3000] [--seed 1] [--shape attention ...] [--out FOLDER]

One file a shape of the fake runtime's memory. The trace comes from bench/replay/make_trace.py. Counts, not times: the same on every machine. Bad input: exit 2.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "compare"))
import machine  # noqa: E402
import result_file  # noqa: E402

BLOCK_TOKENS = 500   # texts part anywhere, not on the ends of pages and chunks
CAPS = "1,2,3,5,10,20,30,50,100"   # percent of what all distinct tokens take
# Of the fake runtime's memory: rows alone, and rows beside snapshots as heavy as Falcon-H1's, taken as `serve` takes them.
SHAPES = {"attention": ("--shape", "attention"),
          "hybrid": ("--shape", "hybrid", "--snapshot-rows", "1500", "--part-snapshots")}


def make_trace(folder, requests, seed):
    path = os.path.join(folder, "trace.jsonl")
    command = [sys.executable, os.path.join(ROOT, "bench", "replay", "make_trace.py"),
               "--requests", str(requests), "--seed", str(seed), "--block-tokens", str(BLOCK_TOKENS)]
    with open(path, "w", encoding="utf-8") as file:
        subprocess.run(command, stdout=file, check=True)
    return path


def replay(skippy, trace, *flags):
    """The command's own result."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [skippy, "bench", "replay", trace, *flags, "--json", out.name]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        if done.returncode:
            raise OSError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-2000:]}")
        return json.load(out)


def measure(arguments, shape, trace):
    told = replay(arguments.skippy, trace, "--block-tokens", str(BLOCK_TOKENS), *SHAPES[shape], "--cap-percents", CAPS,
                  "--policy", "both")
    told["trace"] = os.path.basename(told["trace"])
    return {"format": 1, "title": f"{shape} memory, {told['requests']:,} requests",
            "command": f"tools/bench_replay.py --requests {arguments.requests} --seed {arguments.seed}",
            "commit": machine.commit_of(ROOT), "replay": told}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skippy", default=os.path.join(ROOT, "build", "skippy"))
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shape", action="append", choices=SHAPES, help="may be repeated; default: all")
    parser.add_argument("--out", default=os.path.join(ROOT, "bench", "results", "replay"))
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            trace = make_trace(folder, arguments.requests, arguments.seed)
            for shape in arguments.shape or SHAPES:
                path = os.path.join(arguments.out, f"{shape}.json")
                result_file.store(path, measure(arguments, shape, trace))
                print(path)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
