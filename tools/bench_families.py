#!/usr/bin/env python3
"""Measures the production table: prefix_reuse on a model of every family, a result a model in bench/results/families/.

    tools/bench_families.py [--skippy build/skippy] [--llama-server build/llama-server] [--family F ...] [--rounds 3]

Real models are measured at 128 and 4,096 prompt tokens. Families without one have synthetic models with random weights:
a `small` one (about 100M parameters) at 128 tokens, where computing costs something, and a `mini` one (10 MB) at 4,096,
where a small one would take most of a minute a prompt. They are made as needed in --fixtures, and small ones removed
afterwards. A model that was measured already with the same file, binaries and settings is kept, so an interrupted run
is simply started again. `make results` renders the table. Exits 1 when a gate was missed, 2 when a model could not be
measured.
"""
import argparse
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUN = os.path.join(ROOT, "bench", "compare", "run.py")
REAL_LENGTHS = (128, 4096)
SYNTHETIC = {"small": (128,), "mini": (4096,)}


def plan(families, chosen):
    """[(family, model file, fixture and size or None, lengths)]. A family with a real model is measured with that."""
    rows = []
    for family in families:
        basis = family["certificate"]
        if family["policy"] == "off" or (chosen and family["name"] not in chosen):
            continue
        if basis["model"]:
            rows.append((family["name"], basis["model"], None, REAL_LENGTHS))
        elif basis["fixtures"]:
            name = basis["fixtures"][0]
            rows += [(family["name"], f"{name}-{size}.gguf", (name, size), lengths)
                     for size, lengths in SYNTHETIC.items()]
    return rows


def model_path(arguments, file, fixture):
    if fixture is None:
        return os.path.join(arguments.models, file)
    path = os.path.join(arguments.fixtures, file)
    if not os.path.exists(path):
        os.makedirs(arguments.fixtures, exist_ok=True)
        subprocess.run([arguments.skippy, "fixtures", "--family", fixture[0], "--size", fixture[1],
                        "--out", arguments.fixtures], stdout=subprocess.DEVNULL, check=True)
    return path


def measure(arguments, path, fixture, lengths):
    """run.py's exit code; its result has what went wrong."""
    out = os.path.join(arguments.out, os.path.basename(path).removesuffix(".gguf") + ".json")
    command = [sys.executable, RUN, "--model", path, "--skippy", arguments.skippy, "--llama-server",
               arguments.llama_server, "--scenario", "prefix_reuse", "--lengths", ",".join(map(str, lengths)),
               "--generate", "1,16", "--concurrency", "1", "--rounds", str(arguments.rounds),
               "--threads", str(arguments.threads), "--resume", "--json", out]
    return subprocess.run([*command, *["--synthetic"] * (fixture is not None)], stdout=subprocess.DEVNULL).returncode


def all_families(skippy):
    done = subprocess.run([skippy, "families", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["families"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skippy", default=os.path.join(ROOT, "build", "skippy"))
    parser.add_argument("--llama-server", default=os.path.join(ROOT, "build", "llama-server"))
    parser.add_argument("--fixtures", default=os.path.join(ROOT, "build", "fixtures-bench"))
    parser.add_argument("--models", help="folder of the real ones",
                        default=os.environ.get("SKIPPY_MODELS") or os.path.expanduser("~/.cache/skippy/models"))
    parser.add_argument("--family", action="append", help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of both servers; one is steadiest")
    parser.add_argument("--out", default=os.path.join(ROOT, "bench", "results", "families"))
    arguments = parser.parse_args()
    codes = []
    try:
        families = all_families(arguments.skippy)
        unknown = set(arguments.family or ()) - {family["name"] for family in families}
        if unknown:
            parser.error(f"no such family: {', '.join(sorted(unknown))}")
        for family, file, fixture, lengths in plan(families, arguments.family):
            started = time.monotonic()
            path = model_path(arguments, file, fixture)
            codes.append(measure(arguments, path, fixture, lengths))
            print(f"{family}: {file}: {('measured', 'a gate was missed', 'failed, see its result')[min(codes[-1], 2)]}, "
                  f"{time.monotonic() - started:.0f} s", flush=True)
            if fixture and fixture[1] == "small":
                os.remove(path)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: what was measured is kept; start again to go on", file=sys.stderr)
        return 2
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main())
