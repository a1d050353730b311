#!/usr/bin/env python3
"""Runs llama.cpp's own server tests, out of its source tree, against our server; nothing of them is kept here.

The tests run in a temporary copy. `wrapper.py` stands in for llama-server and serves a local model in place of the
hub's. Outcomes are held against differences.toml: exit status 1 when a test fails that is not listed there, or when a
listed one passes.

Some tests expect the words of the hub's model. With --reference build/llama-server all tests run against llama-server,
too, with the same local model: those that fail for both and with the same words are recorded, with these words, and
are compared with them from then on.
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import differences
import model

HERE = pathlib.Path(__file__).resolve().parent
LISTED = HERE / "differences.toml"
SUITE = pathlib.Path("tools/server/tests")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build", type=pathlib.Path, help="build folder (default: build)")
    parser.add_argument("--source", type=pathlib.Path, help="llama.cpp's source (default: the build's)")
    parser.add_argument("--server", type=pathlib.Path, help="our server (default: BUILD/skippy)")
    parser.add_argument("--reference", type=pathlib.Path, metavar="LLAMA_SERVER",
                        help="record in differences.toml which tests this server fails with the same words")
    parser.add_argument("-k", dest="only", help="only the tests that this pytest expression selects")
    parser.add_argument("-v", "--verbose", action="store_true", help="name all that differs and all that is left out")
    return parser.parse_args()


def source_of(build):
    """Where the build took llama.cpp from."""
    with open(build / "CMakeCache.txt", encoding="utf-8") as f:
        for line in f:
            if line.startswith("llama.cpp_SOURCE_DIR:"):
                return pathlib.Path(line.split("=", 1)[1].strip())
    sys.exit(f"{build}/CMakeCache.txt does not tell where llama.cpp's source is: give --source")


def copy_suite(source, folder):
    """The tests, and the templates that they reach by a relative path."""
    if not (source / SUITE / "unit").is_dir():
        sys.exit(f"{source} holds no {SUITE}: is it llama.cpp's source tree?")
    shutil.copytree(source / SUITE, folder / SUITE, ignore=shutil.ignore_patterns("tmp", "__pycache__"))
    (folder / "models").symlink_to(source / "models")
    return folder / SUITE


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_suite(suite, files, server, served, log, *, ours, only=None):
    """({test: outcome}, {failed test: why}); the output goes to the file `log`."""
    if not server.is_file():
        sys.exit(f"{server} is not there; build it first")
    notes = log.with_suffix(".jsonl")
    notes.write_text("")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_")}
    environment |= {
        "PYTHONPATH": f"{suite}{os.pathsep}{HERE}", "PYTHONDONTWRITEBYTECODE": "1", "PORT": str(free_port()),
        "LLAMA_SERVER_BIN_PATH": str(HERE / "wrapper.py"), "YARDSTICK_SERVER": str(server.resolve()),
        "YARDSTICK_MODEL": str(served), "YARDSTICK_OURS": "1" if ours else "0", "YARDSTICK_NOTES": str(notes),
    }
    command = [sys.executable, "-m", "pytest", "-p", "yardstick_plugin", "-p", "no:cacheprovider", "-q", "--tb=short",
               "-m", "not slow", *(["-k", only] if only else []), *(f"unit/{name}" for name in files)]
    with open(log, "w", encoding="utf-8") as out:
        status = subprocess.run(command, cwd=suite, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                stderr=subprocess.STDOUT).returncode
    if status not in (0, 1, 5):  # 1: some failed; 5: none selected
        sys.exit(f"pytest ended with status {status}; see {log}")
    outcomes, details = {}, {}
    for line in notes.read_text(encoding="utf-8").splitlines():
        note = json.loads(line)
        test = note["test"].removeprefix("unit/")
        if outcomes.get(test) != "failed":
            outcomes[test] = note["outcome"]
        if note["outcome"] == "failed":
            details.setdefault(test, note["detail"])
    return outcomes, details


def record_reference(ours, reference, entries):
    """Writes down which tests expect the hub's model; `ours` and `reference`: {failed test: why}."""
    purpose = [entry for entry in entries if entry.kind == "purpose"]
    says = {test: differences.words(detail) for test, detail in ours.items()
            if test in reference and differences.words(detail) == differences.words(reference[test])
            and not any(entry.covers(test) for entry in purpose)}
    differences.store_model_entries(LISTED, says)


def count(outcomes, what):
    return sum(outcome == what for outcome in outcomes.values())


def report(outcomes, expected, left_out, seconds, verbose):
    print(f"passed                    {count(outcomes, 'passed'):4} of "
          f"{count(outcomes, 'passed') + count(outcomes, 'failed')} tests")
    print(f"differ on purpose         {len(expected['purpose']):4}")
    print(f"expect the hub's model    {len(expected['model']):4}, and fail as llama-server does")
    print(f"left out                  {count(outcomes, 'deselected'):4} that need models of gigabytes, "
          f"{count(outcomes, 'skipped')} that the suite skips, {len(left_out)} files")
    print(f"took                      {seconds:4.0f} s")
    if not verbose:
        return
    for kind, names in expected.items():
        print("".join(f"{kind}: {name}\n" for name in names), end="")
    print("".join(f"left out: {name}: {reason}\n" for name, reason in left_out.items()), end="")


def main():
    args = arguments()
    if args.reference and args.only:
        sys.exit("--reference records all tests: it goes without -k")
    source = (args.source or source_of(args.build)).resolve()
    left_out, entries = differences.load(LISTED)
    logs = args.build.resolve() / "yardstick"
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="yardstick-") as folder:
        folder = pathlib.Path(folder)
        suite = copy_suite(source, folder)
        present = {path.name for path in (suite / "unit").glob("test_*.py")}
        files = sorted(present - set(left_out))
        served = model.write(source / "models/ggml-vocab-llama-spm.gguf", folder / "yardstick.gguf")
        started = time.monotonic()
        outcomes, details = run_suite(suite, files, args.server or args.build / "skippy", served, logs / "skippy.log",
                                      ours=True, only=args.only)
        seconds = time.monotonic() - started
        if args.reference:
            reference, why = run_suite(suite, files, args.reference, served, logs / "llama-server.log", ours=False)
            print(f"llama-server: {count(reference, 'passed')} passed, {count(reference, 'failed')} failed")
            record_reference(details, why, entries)
            left_out, entries = differences.load(LISTED)
    if args.only:
        outcomes = {test: outcome for test, outcome in outcomes.items() if outcome != "deselected"}
        entries = [entry for entry in entries if any(entry.covers(test) for test in outcomes)]
    unexpected, stale, expected = differences.judge(outcomes, details, entries)
    stale += [f"{name} is left out, but there is no such file" for name in sorted(set(left_out) - present)]
    report(outcomes, expected, left_out, seconds, args.verbose)
    for test, detail in unexpected.items():
        print(f"FAILED {test}\n{detail[:800]}")
    for complaint in stale:
        print(f"STALE {complaint}")
    if unexpected or stale:
        print(f"output of the tests: {logs}/skippy.log")
    return 1 if unexpected or stale else 0


if __name__ == "__main__":
    sys.exit(main())
