"""What the charts show, out of the stored results; plain data, so that a chart can be told to be out of date without
drawing it.

A chart is {"name", "title", "command", "caption", "panels"}; a chart without panels is left out. Panels are
    ttft       {"title", "series": {name: [[prompt tokens, median ms, low, high], ...]}}
    tokens     {"title", "scenarios": [...], "series": {name: [tokens, ...]}}
    hit_rate   {"title", "series": {name: [[cap in tokens, share of prompt tokens from the cache], ...]}}
"""
import hashlib
import json
import os

from labels import BEST, OURS
from report.cells import of_group, rows_of
from report.provenance import provenance_of_all

IDEAL = "ideal"
# One real model whose state is not all rows (a sliding window), and a hybrid, where reuse is hardest.
SHOWN_TOKENS = ("gemma-3-270m-q4_k_m.gguf", "qwen3next-tiny.gguf")
POLICIES = {"lru": "LRU", "benefit": "benefit per byte"}


def all_charts(stored):
    """Those that have something to show."""
    charts = (ttft([*stored.runs, *stored.families]), tokens(stored.runs), hit_rate(stored.replays))
    return [chart for chart in charts if chart["panels"]]


def ttft(runs):
    """Of every real model measured at two lengths or more; where two runs have the same model, the one with more."""
    panels, shown = {}, {}
    for run in runs:
        series = {} if run["model"]["synthetic"] else _ttft_series(run)
        points, name = max(map(len, series.values()), default=0), run["model"]["file"]
        if points >= 2 and points > max(map(len, panels.get(name, {}).get("series", {}).values()), default=0):
            panels[name], shown[name] = {"title": name, "series": series}, run
    return {"name": "ttft", "title": "Time to the first token against prefix length",
            "command": "build/skippy bench compare --model M.gguf --threads 1 --scenario prefix_reuse --lengths N,N,...",
            "caption": _caption(shown.values(), "prefix_reuse"), "panels": [panels[name] for name in sorted(panels)]}


def _ttft_series(run):
    """Cold, and repeated exactly with one generated token, by one client."""
    series = {}
    for scenario in of_group(run, "prefix"):
        for _, row in rows_of(scenario):
            clocks = row.get("against", {}).get("llama-server")
            shown = (row["step"], row["generated"]) in (("repeat", 1), ("cold", _most(scenario)))
            if not clocks or not shown or row["concurrency"] != 1:
                continue
            word = "cold" if row["step"] == "cold" else "warm"
            for label, side in (("llama-server", "a"), ("skippy", "b")):
                told = clocks["first"][side]
                series.setdefault(f"{label}, {word}", []).append(
                    [row["prompt_tokens"], *(round(told[key], 3) for key in ("median", "low", "high"))])
    return {name: sorted(points) for name, points in series.items()}


def _most(scenario):
    return max((row["generated"] for _, row in rows_of(scenario)), default=0)


def tokens(runs):
    by_file = {run["model"]["file"]: run for run in runs}
    shown = [by_file[name] for name in SHOWN_TOKENS if name in by_file and of_group(by_file[name], "tokens")]
    return {"name": "tokens", "title": "Prompt tokens evaluated by scenario",
            "command": "build/skippy bench compare --model M.gguf --threads 1 --scenario tokens", "caption": _caption(shown),
            "panels": [panel for panel in map(_tokens_panel, shown) if panel["scenarios"]]}


def _tokens_panel(run):
    scenarios, series = [], {IDEAL: [], OURS: [], BEST: []}
    for scenario in of_group(run, "tokens"):
        rounds = {label: (scenario.get("contestants") or {}).get(label, {}).get("rounds") for label in (OURS, BEST)}
        if all(rounds.values()):
            scenarios.append(scenario["title"])
            series[IDEAL].append(rounds[OURS][0]["ideal"])
            for label in (OURS, BEST):
                series[label].append(rounds[label][0]["evaluated"])
    synthetic = " (random weights)" if run["model"]["synthetic"] else ""
    return {"title": run["model"]["file"] + synthetic, "scenarios": scenarios, "series": series}


def hit_rate(replays):
    panels = [{"title": told["title"], "series": _hit_rate_series(told["replay"])} for told in replays]
    commits = ", ".join(dict.fromkeys(str(told["commit"])[:10] for told in replays))
    return {"name": "hit_rate", "title": "Prompt tokens from the cache against its size",
            "command": "; ".join(dict.fromkeys(told["command"] for told in replays)),
            "caption": f"skippy {commits}; counted, not timed: the same on every machine", "panels": panels}


def _hit_rate_series(replay):
    series, optimum = {}, {}
    for row in replay["rows"]:
        share = row["cached_tokens"] / row["prompt_tokens"]
        series.setdefault(POLICIES.get(row["policy"], row["policy"]), []).append([row["cap_tokens"], round(share, 5)])
        optimum[row["cap_tokens"]] = round(row["optimum"]["cached_tokens"] / row["prompt_tokens"], 5)
    series["optimum"] = [list(point) for point in optimum.items()]
    return {name: sorted(points) for name, points in series.items()}


def _caption(runs, scenario=None):
    """Commit and machine; of one scenario's commit where it was measured at another time than the rest."""
    runs = [run if scenario is None else {**run, "scenarios": {scenario: run["scenarios"][scenario]}} for run in runs]
    return provenance_of_all(runs) if runs else ""


def digest(chart):
    """Of what is shown and of how it is drawn."""
    with open(os.path.join(os.path.dirname(__file__), "draw.py"), "rb") as file:
        drawing = file.read()
    return hashlib.sha256(json.dumps(chart, sort_keys=True).encode() + drawing).hexdigest()


def digest_in(svg):
    """The digest that a drawn chart carries; None where it has none."""
    _, found, rest = svg.partition("<!-- digest ")
    return rest.partition(" -->")[0] if found else None
