#!/usr/bin/env python3
"""Compares skippy with llama-server of the same llama.cpp build, over HTTP, with matched settings.

    build/skippy bench compare --model M.gguf --llama-server build/llama-server \\
        [--scenario tokens|speed|cost|parity|NAME ...] [--rounds 12] [--json bench/results/NAME.json]

Prints tables and writes raw samples, commands, commits and machine to the JSON file, after every round, so an
interrupted run keeps what it had, marked as partial. Where the JSON file exists already, say what becomes of it:
--resume (the same command again: runs what is not done yet with this model, these binaries and settings), --add (runs
the chosen scenarios, keeps the others) or --overwrite.

--short is a smoke test: parity and the token scenarios with short texts, one round each. It fails on a missing cell,
or on an answer that is not our cold run's nor parts from it at a near tie; never on speed.

Exit codes: 0 all gates met (refused ratios are not gates missed), or nothing to complain of with --short; 1 a gate was
missed, or a complaint; 2 bad usage or input, a scenario failed, or interrupted.
"""
import os
import signal
import sys
import time
import traceback

import completeness
import machine
import report
import result_file
import token_scenario
from bench import Bench
from options import parse
from servers import BenchError, Server


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
        "binaries": {"skippy": machine.sha256_of(arguments.skippy),
                     "llama_server": machine.sha256_of(arguments.llama_server)},
        "model": model,
        "scenarios": {},
    }


def compare_builds(results, allow_other):
    """Marks the result; BenchError unless both tell the same llama.cpp commit or another one is allowed."""
    told = {name: results[key]["version"] for name, key in (("skippy", "skippy"), ("llama-server", "llama_server"))}
    ours, theirs = (machine.llama_commit_of(version) for version in told.values())
    results["same_build"] = bool(ours and theirs) and (ours.startswith(theirs) or theirs.startswith(ours))
    if not results["same_build"] and not allow_other:
        raise BenchError("the two are not of the same llama.cpp build: " +
                         ", ".join(f"{name} --version says {version!r}" for name, version in told.items()) +
                         "; build llama-server with 'make llama-server', or compare anyway with --allow-other-build")


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
    except (KeyError, IndexError, ValueError, TypeError, OSError):
        result.update(status="failed", error=f"unexpected answer:\n{traceback.format_exc(limit=-3)}")
    finally:
        result["seconds"] = round(time.monotonic() - activity.started, 1)


def prepare(arguments, save):
    """(results, bench, modules to run). Raises BenchError or result_file.CannotGoOn before anything is measured."""
    results = describe(arguments)
    compare_builds(results, arguments.allow_other_build)
    bench = Bench(arguments, results["model"], lambda: save(results))
    results["settings"] = {**vars(bench.settings), "model": results["model"]["file"], "rounds": arguments.rounds,
                           "seed": arguments.seed, "verify": arguments.verify, "ours_only": arguments.ours_only,
                           "text_scale": arguments.text_scale, "axes": vars(bench.axes),
                           "use_cases": bench.use_cases}
    done = result_file.carry_on(arguments.json, results, [module.NAME for module in arguments.modules],
                                arguments.add, arguments.resume, arguments.overwrite)
    modules = [module for module in arguments.modules if module.NAME not in done]
    if modules:
        for contestant in (bench.ours, bench.baseline):   # a model that does not load is told once, at the start
            with Server(contestant, bench.settings_for(lanes=1)):
                pass
    return results, bench, modules


def run_all(results, bench, modules):
    """False when interrupted."""
    conditions = result_file.conditions_of(results)
    try:
        for module in modules:
            result = results["scenarios"][module.NAME] = {
                "title": module.TITLE, "group": module.GROUP, "status": "partial",
                "commit": results["skippy"]["commit"], "conditions": conditions}
            run_one(bench, module, result)
            bench.save()
    except KeyboardInterrupt:
        return False
    return True


def main(argv=None):
    arguments = parse(argv, __doc__)
    for number in (signal.SIGINT, signal.SIGTERM):   # either is an interrupt; a background job starts with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    try:
        results, bench, modules = prepare(arguments, lambda results: result_file.store(arguments.json, results))
    except (BenchError, result_file.CannotGoOn) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted before anything was measured.", file=sys.stderr)
        return 2
    finished = run_all(results, bench, modules)
    statuses = [result["status"] for result in results["scenarios"].values()]
    results["complete"] = finished and "partial" not in statuses
    bench.save()
    bench.progress("")
    print(report.as_terminal([results]))
    return conclude(arguments, results, finished)


def conclude(arguments, results, finished):
    """Says what the tables do not; the exit code."""
    if not finished:
        where = "; --resume goes on from there." if arguments.json else ", in these tables only (no --json)."
        print(f"Interrupted: what was measured until then is kept and marked as partial{where}", file=sys.stderr)
    if not finished or any(result["status"] != "done" for result in results["scenarios"].values()):
        return 2
    if arguments.short:
        complaints = completeness.complaints(results)
        for complaint in complaints:
            print(f"short: {complaint}", file=sys.stderr)
        return 1 if complaints else 0
    return 1 if report.missed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
