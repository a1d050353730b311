#!/usr/bin/env python3
"""Renders the stored results: the README's measured part, docs/evidence/{benchmarks,production}.md, docs/charts/*.svg.

    tools/render_results.py [--check] [--results bench/results] [--readme README.md] [--docs docs]

Replaces what stands between <!-- bench:begin --> and <!-- bench:end --> in the README. Charts need matplotlib, which
the environment of `make results` has; one that shows the stored results already is left alone. --check changes nothing,
needs no matplotlib, and exits 1 when something does not show the stored results. Bad input (no markers, not a result
file): exit 2.
"""
import argparse
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "compare"))
import report  # noqa: E402
import stored  # noqa: E402
from charts import data  # noqa: E402
from report import misses, production  # noqa: E402
from report.readme import readme  # noqa: E402

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def between_markers(text, measured):
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise stored.BadResult(f"no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{measured}\n{END}{after}"


def benchmarks(found):
    """docs/evidence/benchmarks.md"""
    runs = found.runs
    parts = ["# Measured against llama-server",
             "Rendered by `make results` from `bench/results/`, which has every sample; the commands, commits and the "
             "machine stand at the end. The families are in [production.md](production.md).",
             *([report.headline(runs), misses.section(found), "## All tables", report.as_markdown(runs)] if runs else ["Not measured yet."])]
    return "\n\n".join(parts) + "\n"


def texts(found, charts, arguments):
    """{path: the text it must have}"""
    shown = [(os.path.relpath(svg_path(arguments, chart), os.path.dirname(os.path.abspath(arguments.readme))),
              chart["title"], chart["command"], chart["caption"]) for chart in charts]
    try:
        return {arguments.readme: between_markers(read(arguments.readme), readme(found, shown)),
                os.path.join(arguments.docs, "evidence", "benchmarks.md"): benchmarks(found),
                os.path.join(arguments.docs, "evidence", "production.md"): production.page(found)}
    except stored.BadResult as error:
        raise stored.BadResult(f"{arguments.readme}: {error}") from error


def svg_path(arguments, chart):
    return os.path.join(arguments.docs, "charts", chart["name"] + ".svg")


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write(path, text):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def draw(chart):
    try:
        from charts.draw import svg
    except ModuleNotFoundError as error:
        raise stored.BadResult(f"charts need {error.name}, which the environment of `make results` has") from error
    return svg(chart)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", default=os.path.join(ROOT, "bench", "results"))
    parser.add_argument("--readme", default=os.path.join(ROOT, "README.md"))
    parser.add_argument("--docs", default=os.path.join(ROOT, "docs"))
    arguments = parser.parse_args()
    try:
        found = stored.load(arguments.results, os.path.join(arguments.docs, "evidence"))
        charts = data.all_charts(found)
        outdated = {path: text for path, text in texts(found, charts, arguments).items() if read(path) != text}
        undrawn = {svg_path(arguments, chart): chart for chart in charts
                   if data.digest_in(read(svg_path(arguments, chart))) != data.digest(chart)}
        if arguments.check:
            for path in (*outdated, *undrawn):
                print(f"error: {path} does not show the stored results; run `make results`", file=sys.stderr)
            return 1 if outdated or undrawn else 0
        for path, text in {**outdated, **{path: draw(chart) for path, chart in undrawn.items()}}.items():
            write(path, text)
            print(path)
    except (OSError, stored.BadResult) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
