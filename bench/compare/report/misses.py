"""Where more was evaluated than by llama-server at its best settings, or another target was missed; and why, as far as
the file of causes knows."""
from labels import BEST, OURS
from report.cells import model_title, of_group, rows_of
from report.verdicts import inexact, row_verdict
from scenarios import long_edit
from stats import median

NOISE = 1.03
LONG_EDIT_TARGET = 5    # times fewer tokens than llama-server, of models with recurrent memory
LONG_EDIT_TITLE = f"edits inside a long message {LONG_EDIT_TARGET} times cheaper"


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
    for scenario in [*of_group(run, "speed"), *of_group(run, "prefix")]:
        for _, row in rows_of(scenario):
            if row_verdict(row).startswith("MISSED"):
                reasons = row.get("why") or [f"{row['ratio']['median']:.2f} times as fast, at least {row['target']} wanted"]
                yield row["title"], ", ".join(reasons), _cause(stored, run, row)
    yield from _long_edits(stored, run)


def _miss(stored, run, title, row, scenario):
    reasons = row.get("gate", {}).get("why_not") or ([] if "gate" in row else list(_more(row)))
    if reasons:
        yield title, ", ".join(reasons), _cause(stored, run, scenario)


def _more(row):
    """Of a scenario without a gate: it is said all the same."""
    both = _rounds(row)
    if not both or inexact(row.get("answers", {}), BEST):
        return
    ours, best = (median([played["ratio"] for played in rounds]) for rounds in both)
    if ours > best * NOISE:
        yield f"{ours:.2f} times the ideal, {BEST} {best:.2f}"


def _rounds(row):
    """Ours and those of llama-server at its best; None unless both were played."""
    told = row.get("contestants") or {}
    both = [told.get(label, {}).get("rounds") for label in (OURS, BEST)]
    return both if all(both) else None


def _long_edits(stored, run):
    """Recurrent memory cannot be cut back, so an edit inside a message is where most is lost."""
    both = _rounds(run["scenarios"].get(long_edit.NAME, {}))
    if not both or run["model"].get("policy") != "kv_recurrent":
        return
    ours, best = ([entry["evaluated"] for entry in rounds[0]["entries"][1:]] for rounds in both)
    times = [theirs / mine for theirs, mine in zip(best, ours)]
    if any(one < LONG_EDIT_TARGET for one in times):
        places = ", ".join(f"{one:.1f} at {place:.0%}" for one, place in zip(times, long_edit.PLACES))
        yield (LONG_EDIT_TITLE, f"times fewer tokens than {BEST}: {places} of the message",
               _cause(stored, run, {"title": LONG_EDIT_TITLE}))


def _cause(stored, run, scenario):
    here = {"title": scenario["title"], "model": run["model"]["file"]}
    return next((told["text"] for told in stored.misses if all(told[key] == here[key] for key in here if key in told)),
                "not examined yet.")
