"""Tables from stored results, for the terminal and for the README. A table is (title, head, rows, notes)."""


NEAR_TIE = 0.5   # nats between the best token and the runner-up


def tables(results):
    """`results`: the stored runs, one a model."""
    made = [tokens_table(run) for run in results] + [speed_table(run) for run in results]
    made += [cost_table(run) for run in results] + [parity_table(run) for run in results]
    return [table for table in made if table[2]]


def missed(run):
    """Names of the gates that were measured and not met."""
    return [name for name, verdict in verdicts(run) if verdict.startswith("MISSED")]


def verdicts(run):
    for name, scenario in run["scenarios"].items():
        if "gate" in scenario:
            yield name, _met(scenario["gate"]["met"])
        for key, row in _rows(scenario):
            yield f"{name}/{key}", row_verdict(row)
            if "server_ms_target" in row and not row["refused"]:
                yield f"{name}/{key}/server", _met(row["server_ms"] <= row["server_ms_target"])


def row_verdict(row):
    if row.get("refused"):
        # Work that is nothing but computing may be judged by the CPU time it takes, where that was steady.
        cpu = _cpu(row)
        return f"{_met(cpu['ratio']['median'] >= row['target'])} by CPU time" if cpu and "target" in row else "refused"
    if "gate" in row:
        return _met(row["gate"]["met"])
    if "ratio" in row and "target" in row:
        return _met(row["ratio"]["median"] >= row["target"])
    return ""


def _cpu(row):
    cpu = row.get("cpu") if row.get("cpu_counts") else None
    return cpu if cpu and not cpu["refused"] else None


def _interval(spread):
    return f"{spread['median']:.2f} ({spread['sure_low']:.2f} to {spread['sure_high']:.2f})"


def tokens_table(run):
    head = ["scenario", "requests", "prompt tokens", "ideal", "skippy", "llama-server", "llama-server, best settings",
            "same answers", "gate"]
    rows = []
    for scenario in _of_group(run, "tokens"):
        by_label = scenario.get("contestants") or {}
        if not by_label:
            rows.append([scenario["title"], *[""] * 7, scenario["status"]])
            continue
        first = next(iter(by_label.values()))["rounds"]
        cells = [scenario["title"], str(first[0]["requests"]), _many(first, "prompt_tokens"), _many(first, "ideal")]
        for label in head[4:7]:
            rounds = by_label.get(label, {}).get("rounds")
            cells.append(_ratio_cell([r["ratio"] for r in rounds]) if rounds else "")
        cells.append(_answers(scenario.get("answers", {})))
        cells.append(_status(scenario, _met(scenario["gate"]["met"]) if "gate" in scenario else ""))
        rows.append(cells)
    notes = ["Prompt tokens evaluated, as a multiple of what a perfect prefix tree evaluates; 1.00 is the best possible. "
             "Same answers: greedy answers equal to those of a run without a cache, or else of llama-server; near ties: "
             f"the answers that part where the runner-up was less than {NEAR_TIE} nats behind."]
    return (f"Tokens evaluated: {_model(run)}", head, rows, notes)


def speed_table(run):
    head = ["measured", "llama-server", "skippy", "times faster (95 %)", "llama-server against itself", "gate"]
    rows = []
    for scenario in _of_group(run, "speed"):
        for _, row in _rows(scenario):
            unit = row["unit"]
            ratio = "refused" if row["refused"] else _interval(row["ratio"])
            if _cpu(row):
                ratio += f"; CPU time {_interval(row['cpu']['ratio'])}"
            ours = f"{row['b']['median']:.2f} {unit}"
            if "server_ms" in row:
                ours += f" ({row['server_ms']:.2f} in the server)"
            rows.append([row["title"], f"{row['a']['median']:.2f} {unit}", ours, ratio, _interval(row["same_against_same"]),
                         _status(scenario, row_verdict(row))])
    notes = ["Medians over interleaved rounds (A, B, B, A), in brackets where the true median lies with 95 %; every sample is "
             "in the result file. A ratio is refused when llama-server differs too much from another instance of itself "
             "in the same minutes; what only computes is then judged by the CPU time of the servers, under the same rule."]
    return (f"Speed: {_model(run)}", head, rows, notes)


def cost_table(run):
    rows = []
    for scenario in _of_group(run, "cost"):
        for _, row in _rows(scenario):
            rows.append([row["title"], row["value"], row["bound"], _status(scenario, row_verdict(row))])
    return (f"What the cache costs: {_model(run)}", ["measured", "value", "bound", "gate"], rows, [])


def parity_table(run):
    rows = []
    for scenario in _of_group(run, "parity"):
        for row in scenario.get("rows", []):
            at = row["first_difference"]
            verdict = "equal" if at is None else f"parts at token {at}"
            if at is not None and row["gap_there"] is not None:
                verdict += f", runner-up {row['gap_there']:.2f} nats behind"
            rows.append([str(row["prompt_tokens"]), str(row["compared"]), verdict])
    return (f"Cold greedy answers, skippy against llama-server: {_model(run)}",
            ["prompt tokens", "generated", "answers"], rows, [])


def as_terminal(results):
    parts = []
    for title, head, rows, notes in tables(results):
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [head, *rows]]
        parts.append("\n".join([title, *lines, *notes]))
    for run in results:
        parts += [f"{name}: {scenario['status']}: {scenario['error']}"
                  for name, scenario in run["scenarios"].items() if "error" in scenario]
        parts += [f"{name}: {reason}" for name, scenario in run["scenarios"].items()
                  for reason in scenario.get("gate", {}).get("why_not", [])]
        parts += [f"{name}/{key}: {row['refused']}" for name, scenario in run["scenarios"].items()
                  for key, row in _rows(scenario) if row.get("refused")]
    return "\n\n".join(parts)


def as_markdown(results):
    parts = [_markdown(*table) for table in tables(results)]
    parts += [provenance(run) for run in results]
    return "\n\n".join(parts)


def headline(results):
    """A line a scenario, a column a model: what a reader wants to see first."""
    real_first = sorted(results, key=lambda run: run["model"]["synthetic"])
    made = [_matrix("Prompt tokens evaluated, as multiples of a perfect prefix tree's: "
                    "skippy / llama-server at its best settings for the scenario", real_first, "tokens", _tokens_cells),
            _matrix("Times faster than llama-server, with the interval of the median (95 %)", real_first, "speed",
                    _speed_cells)]
    parts = [_markdown(*table) for table in made if table[2]]
    if any(run["model"]["synthetic"] for run in results):
        parts.append("\\* random weights in the family's real layout.")
    commits = dict.fromkeys(commit for run in results for commit in _commits(run))
    machines = dict.fromkeys(f"{run['machine']['cpu']}, {run['machine']['cores']} cores" for run in results)
    builds = dict.fromkeys(str(run["llama_server"]["version"]) for run in results)
    days = sorted(run["started"][:10] for run in results)
    parts.append(f"Measured with `bench/compare/run.py` from {days[0]} to {days[-1]} on {'; '.join(machines)}; skippy "
                 f"{', '.join(commits)}; llama-server {', '.join(builds)}. Every table with its command and what it cost: "
                 "[docs/evidence/benchmarks.md](docs/evidence/benchmarks.md).")
    return "\n\n".join(parts)


def _commits(run):
    commits = dict.fromkeys(str(s.get("commit", run["skippy"]["commit"]))[:10] for s in run["scenarios"].values())
    return list(commits) or [str(run["skippy"]["commit"])[:10]]


def _matrix(title, runs, group, cells_of):
    by_run = [(run, {name: cell for scenario in _of_group(run, group) for name, cell in cells_of(scenario)}) for run in runs]
    by_run = [(run, cells) for run, cells in by_run if cells]
    names = dict.fromkeys(name for _, cells in by_run for name in cells)
    mark = {True: " \\*", False: ""}
    head = [""] + [run["model"]["file"].removesuffix(".gguf") + mark[run["model"]["synthetic"]] for run, _ in by_run]
    return title, head, [[name] + [cells.get(name, "not measured") for _, cells in by_run] for name in names], []


def _tokens_cells(scenario):
    by_label = scenario.get("contestants") or {}
    texts = [_ratio_cell([r["ratio"] for r in by_label[label]["rounds"]]) if by_label.get(label, {}).get("rounds") else "?"
             for label in ("skippy", "llama-server, best settings")]
    yield scenario["title"], _status(scenario, " / ".join(texts))


def _speed_cells(scenario):
    for _, row in _rows(scenario):
        text = "refused: the machine was too noisy" if row["refused"] else _interval(row["ratio"])
        if row["refused"] and _cpu(row):
            text = f"{_interval(row['cpu']['ratio'])} by CPU time"
        if "server_ms" in row:
            text += f", {row['server_ms']:.2f} ms in the server"
        yield row["title"], _status(scenario, text)


def _markdown(title, head, rows, notes):
    table = [head, ["---"] * len(head), *rows]
    return "\n".join([f"**{title}**", "", *("| " + " | ".join(row) + " |" for row in table)] + (["", *notes] if notes else []))


def provenance(run):
    m = run["machine"]
    partial = "" if run["complete"] else " **Partial: the run was interrupted.**"
    return (f"{_model(run)}: skippy {' and '.join(_commits(run))}, {run['llama_server']['version']}; {m['cpu']}, "
            f"{m['cores']} cores, {run['started'][:10]}; `{' '.join(run['command'])}`.{partial}")


def _model(run):
    model = run["model"]
    return f"{model['file']}{' (synthetic weights)' if model['synthetic'] else ''}"


def _answers(answers):
    """The own cold run where there was one: it says more than another program's answers."""
    label = next((name for name in ("skippy, cold", "llama-server") if name in answers), None)
    if label is None:
        return ""
    told = answers[label]
    near = sum(1 for p in told["partings"] if p["gap"] is not None and p["gap"] < NEAR_TIE)
    text = f"{told['equal']} of {told['compared']}"
    return text + (f" ({near} near ties)" if near else "")


def _of_group(run, group):
    return [scenario for scenario in run["scenarios"].values() if scenario["group"] == group]


def _rows(scenario):
    rows = scenario.get("rows") or {}
    return rows.items() if isinstance(rows, dict) else []


def _many(rounds, key):
    values = sorted({r[key] for r in rounds})
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _ratio_cell(ratios):
    low, high = min(ratios), max(ratios)
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def _met(met):
    return "met" if met else "MISSED"


def _status(scenario, verdict):
    return verdict if scenario["status"] == "done" else f"{verdict} {scenario['status']}".strip()
