#!/usr/bin/env python3
"""Compares skippy with llama-server of the same llama.cpp build, over HTTP, with matched settings.

    build/skippy bench compare --model M.gguf --llama-server build/llama-server \\
        [--scenario tokens|speed|cost|parity|NAME ...] [--rounds 12] [--json bench/results/NAME.json]

Prints tables and writes raw samples, commands, commits and machine to the JSON file, after every round, so an
interrupted run keeps what it had, marked as partial. Exit codes: 0 all gates met (refused ratios are not gates
missed), 1 a gate was missed, 2 bad usage or input, a scenario failed, or interrupted.
"""
import argparse
import json
import os
import signal
import sys
import time
import traceback

import machine
import report
import scenarios
import token_scenario
from servers import BenchError, Contestant, Server, Settings

# Families whose state can be cut back to any position; the others resume at recorded boundaries.
ANY_POSITION = {"llama", "qwen2", "qwen3", "qwen3moe", "deepseek2", "glm4", "glm4moe", "gemma", "olmo", "minimax-m2"}
SLIDING_WINDOW = {"gemma2", "gemma3", "gemma3n", "gemma4", "gpt-oss", "olmo2", "cohere2", "llama4", "exaone4"}


class Bench:
    """What a scenario may use."""

    def __init__(self, arguments, model, save):
        self.rounds, self.seed, self.save = arguments.rounds, arguments.seed, save
        self.settings = Settings(model=arguments.model, context=arguments.context, threads=arguments.threads,
                                 ubatch=arguments.ubatch, type_k=arguments.type_k, type_v=arguments.type_v,
                                 cache_ram=arguments.cache_ram)
        self.verify = arguments.verify
        self.any_position = model["architecture"] in ANY_POSITION
        kind = "llama-server" if "llama-server" in os.path.basename(arguments.skippy) else "skippy"
        best = ["--cache-ram", str(arguments.cache_ram), "--ctx-checkpoints", "128", "--checkpoint-min-step", "16"]
        if model["architecture"] in SLIDING_WINDOW:
            best.append("--swa-full")
        self.ours = Contestant("skippy", kind, arguments.skippy)
        self.ours_without_cache = Contestant("skippy, cold", kind, arguments.skippy, ("--no-cache",))
        self.baseline = Contestant("llama-server", "llama-server", arguments.llama_server)
        self.best = Contestant("llama-server, best settings", "llama-server", arguments.llama_server, tuple(best))
        self.contestants = [self.ours] if arguments.ours_only else [self.ours, self.baseline, self.best]
        self._name = ""

    def settings_for(self, **changes):
        return Settings(**{**vars(self.settings), **changes})

    @staticmethod
    def without_cache(contestant):
        return Contestant(contestant.label, contestant.kind, contestant.binary, (*contestant.extra, "--cache-ram", "0"))

    def start(self, name):
        self._name = name

    def progress(self, note):
        if sys.stderr.isatty():
            print(f"\r\033[K{self._name}: {note}", end="", file=sys.stderr, flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--skippy", default="build/skippy")
    parser.add_argument("--llama-server", default="build/llama-server")
    parser.add_argument("--scenario", action="append", help="a scenario or group; may be repeated; default: all")
    parser.add_argument("--rounds", "--runs", type=int, default=12, help="A/B/B/A rounds of a timing (default 12)")
    parser.add_argument("--json", help="where to store the result")
    parser.add_argument("--add", action="store_true",
                        help="keep what the --json file has of scenarios that are not run now")
    parser.add_argument("--context", type=int, default=8192, help="positions a conversation")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--ubatch", type=int, default=256, help="tokens of one prefill pass, both servers")
    parser.add_argument("--type-k", default="f16")
    parser.add_argument("--type-v", default="f16")
    parser.add_argument("--cache-ram", type=int, default=8192, help="MiB, both servers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ours-only", action="store_true", help="count tokens of skippy alone (quick, while developing)")
    parser.add_argument("--verify", action="store_true",
                        help="token scenarios: compare every answer with one of skippy without a cache")
    parser.add_argument("--synthetic", action="store_true", help="mark the model as one with random weights")
    parsed = parser.parse_args(arguments)
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    for flag in ("model", "skippy", "llama_server"):
        path = getattr(parsed, flag)
        if not os.path.isfile(path):
            parser.error(f"--{flag.replace('_', '-')}: no such file: {path}")
        if flag != "model" and not os.access(path, os.X_OK):
            parser.error(f"--{flag.replace('_', '-')}: not executable: {path}")
    try:
        parsed.modules = scenarios.select(parsed.scenario or ["all"])
    except ValueError as error:
        parser.error(str(error))
    return parsed


def store(path, results):
    """Whole or not at all: a reader never sees half a file."""
    if path:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path + ".part", "w", encoding="utf-8") as file:
            # Home folders say nothing about a measurement.
            file.write(json.dumps(results, indent=1).replace(os.path.expanduser("~"), "~"))
            file.write("\n")
        os.replace(path + ".part", path)


def describe(arguments):
    model = {**machine.describe_model(arguments.model), "synthetic": arguments.synthetic}
    return {
        "format": 1,
        "complete": False,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": ["bench/compare/run.py", *sys.argv[1:]],
        "machine": machine.describe_machine(),
        "skippy": {"commit": machine.commit_of(os.path.dirname(os.path.abspath(__file__))),
                   "version": machine.version_of(arguments.skippy)},
        "llama_server": {"version": machine.version_of(arguments.llama_server)},
        "model": model,
        "scenarios": {},
    }


def keep_others(arguments, results):
    """Takes over what the file has of scenarios that are not run now; returns what forbids it."""
    try:
        with open(arguments.json, encoding="utf-8") as file:
            before = json.load(file)
    except (OSError, TypeError, ValueError) as error:
        return f"--add: {error}"
    for key, what in (("sha256", "of another model"), ("synthetic", "marked otherwise")):
        if before["model"][key] != results["model"][key]:
            return f"--add: {arguments.json} is {what}"
    chosen = {module.NAME for module in arguments.modules}
    for name, scenario in before["scenarios"].items():
        if name not in chosen:
            results["scenarios"][name] = {"commit": before["skippy"]["commit"], **scenario}
    return None


def run_one(bench, module, result):
    """Fills `result`; an error of this scenario is noted in it and does not stop the others."""
    bench.start(module.NAME)
    activity = machine.Activity([])
    try:
        if module.GROUP == "tokens":
            token_scenario.run(bench, result, module)
        else:
            module.run(bench, result)
        result["status"] = "done"
    except BenchError as error:
        result.update(status="failed", error=str(error))
    except (KeyError, IndexError, ValueError, TypeError):
        result.update(status="failed", error=f"unexpected answer:\n{traceback.format_exc(limit=-3)}")
    finally:
        result["seconds"] = round(time.monotonic() - activity.started, 1)


def main(argv=None):
    arguments = parse(argv)
    for number in (signal.SIGINT, signal.SIGTERM):   # either is an interrupt; a background job starts with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    results = describe(arguments)

    def save():
        store(arguments.json, results)

    bench = Bench(arguments, results["model"], save)
    results["settings"] = {**vars(bench.settings), "model": results["model"]["file"]}
    if arguments.add:
        error = keep_others(arguments, results)
        if error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    interrupted = False
    try:
        for contestant in (bench.ours, bench.baseline):   # a model that does not load is told once, at the start
            with Server(contestant, bench.settings_for(lanes=1)):
                pass
        for module in arguments.modules:
            result = results["scenarios"][module.NAME] = {"title": module.TITLE, "group": module.GROUP,
                                                          "status": "partial", "commit": results["skippy"]["commit"]}
            run_one(bench, module, result)
            save()
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        interrupted = True
    results["complete"] = not interrupted
    save()
    bench.progress("")
    print(report.as_terminal([results]))
    if interrupted:
        print("Interrupted: what was measured until then is kept and marked as partial.", file=sys.stderr)
    statuses = [result["status"] for result in results["scenarios"].values()]
    if interrupted or any(status != "done" for status in statuses):
        return 2
    return 1 if report.missed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
