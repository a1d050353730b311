"""Where more was evaluated than by llama-server at its best settings, or another target was missed; and why, as far as
the file of causes knows."""
from report.cells import model_title, of_group, rows_of
from report.verdicts import inexact
from stats import median

OURS, BEST, NOISE = "skippy", "llama-server, best settings", 1.03


def section(stored):
    """For docs/evidence/benchmarks.md."""
    models = {}
    for run in stored.runs:
        for miss in _of_run(stored, run):
            models.setdefault(miss, []).append(model_title(run))
    lines = [f"- **{title}**, {', '.join(names)}: {reasons}. Cause: {cause}"
             for (title, reasons, cause), names in models.items()]
    return "\n\n".join(["## Targets that were missed", "\n".join(lines) or "None of those that were measured."])


def _of_run(stored, run):
    """(title, reasons, cause)"""
    for scenario in of_group(run, "tokens"):
        yield from _miss(stored, run, scenario["title"], scenario, scenario)
    for scenario in of_group(run, "use"):
        for _, row in rows_of(scenario):
            yield from _miss(stored, run, row["title"], row, scenario)


def _miss(stored, run, title, row, scenario):
    reasons = row.get("gate", {}).get("why_not") or ([] if "gate" in row else list(_more(row)))
    if reasons:
        yield title, ", ".join(reasons), _cause(stored, run, scenario)


def _more(row):
    """Of a scenario without a gate: it is said all the same."""
    told = row.get("contestants") or {}
    if not all(told.get(label, {}).get("rounds") for label in (OURS, BEST)) or inexact(row.get("answers", {}), BEST):
        return
    ours, best = (median([played["ratio"] for played in told[label]["rounds"]]) for label in (OURS, BEST))
    if ours > best * NOISE:
        yield f"{ours:.2f} times the ideal, {BEST} {best:.2f}"


def _cause(stored, run, scenario):
    here = {"title": scenario["title"], "model": run["model"]["file"]}
    return next((told["text"] for told in stored.misses if all(told[key] == here[key] for key in here if key in told)),
                "not examined yet.")
