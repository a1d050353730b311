#!/usr/bin/env python3
"""Writes the README's measured tables and all of them in docs/evidence/benchmarks.md from the stored results.

    tools/render_results.py [--check] [--readme README.md] [--details docs/evidence/benchmarks.md] [bench/results/*.json]

Replaces what stands between <!-- bench:begin --> and <!-- bench:end --> in the README. --check changes nothing and exits
1 when one of the two does not show the stored results. Bad input (no markers, not a result file): exit 2.
"""
import argparse
import glob
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "compare"))
import report  # noqa: E402

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
        if run.get("format") != 1:
            raise ValueError("not a result of bench/compare/run.py")
        return run
    except (OSError, ValueError, AttributeError) as error:
        raise SystemExit(_fail(f"{path}: {error}")) from error


def render(readme, runs):
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} ... {END}")
    tables = report.headline(runs) if runs else "Not measured yet."
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"


def details(runs):
    return ("# Measured against llama-server\n\nWritten by `tools/render_results.py` from `bench/results/`, which has every "
            "sample; the commands, commits and the machine stand at the end.\n\n" + report.as_markdown(runs) + "\n")


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _fail(message):
    print(f"error: {message}", file=sys.stderr)
    return 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--readme", default=os.path.join(ROOT, "README.md"))
    parser.add_argument("--details", default=os.path.join(ROOT, "docs", "evidence", "benchmarks.md"))
    parser.add_argument("results", nargs="*", default=sorted(glob.glob(os.path.join(ROOT, "bench", "results", "*.json"))))
    arguments = parser.parse_args()
    runs = [load(path) for path in arguments.results]
    wanted = {arguments.details: details(runs)}
    try:
        wanted[arguments.readme] = render(read(arguments.readme), runs)
    except (OSError, ValueError) as error:
        return _fail(f"{arguments.readme}: {error}")
    for path, text in wanted.items():
        if read(path) == text:
            continue
        if arguments.check:
            return _fail(f"{path} does not show the stored results; run tools/render_results.py") - 1
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
