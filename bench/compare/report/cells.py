"""What the cells of several tables have in common."""


def of_group(run, group):
    return [scenario for scenario in run["scenarios"].values() if scenario["group"] == group]


def rows_of(scenario):
    """(key, row) pairs; a list of rows has no keys and is its own table's business."""
    rows = scenario.get("rows") or {}
    return rows.items() if isinstance(rows, dict) else []


def model_title(run):
    model = run["model"]
    return f"{model['file']}{' (synthetic weights)' if model['synthetic'] else ''}"


def interval(spread):
    return f"{spread['median']:.2f} ({spread['sure_low']:.2f} to {spread['sure_high']:.2f})"


def many(rounds, key):
    values = sorted({r[key] for r in rounds})
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def ratio_cell(ratios):
    low, high = min(ratios), max(ratios)
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def status(scenario, verdict):
    """The verdict, and that the scenario did not end well if so."""
    return verdict if scenario["status"] == "done" else f"{verdict} {scenario['status']}".strip()
