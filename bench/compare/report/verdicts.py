"""Which gates were met."""
from labels import COLD
from report.cells import rows_of

NEAR_TIE = 0.5   # nats between the best token and the runner-up


def missed(run):
    """Names of the gates that were measured and not met."""
    return [name for name, verdict in verdicts(run) if verdict.startswith("MISSED")]


def verdicts(run):
    for name, scenario in run["scenarios"].items():
        if "gate" in scenario:
            yield name, met_word(scenario["gate"]["met"])
        for key, row in rows_of(scenario):
            yield f"{name}/{key}", row_verdict(row)
            if "server_ms_target" in row and not row["refused"]:
                yield f"{name}/{key}/server", met_word(row["server_ms"] <= row["server_ms_target"])


def row_verdict(row):
    if "verdict" in row:
        return row["verdict"]
    if row.get("refused"):
        # Work that is nothing but computing may be judged by the CPU time it takes, where that was steady.
        cpu = steady_cpu(row)
        if not cpu or "target" not in row:
            return "refused"
        return f"{met_word(cpu['ratio']['median'] >= row['target'])} by CPU time"
    if "gate" in row:
        return met_word(row["gate"]["met"])
    if "ratio" in row and "target" in row:
        return met_word(row["ratio"]["median"] >= row["target"])
    return ""


def steady_cpu(row):
    cpu = row.get("cpu") if row.get("cpu_counts") else None
    return cpu if cpu and not cpu["refused"] else None


def met_word(met):
    return "met" if met else "MISSED"


def wrong(told):
    """Where answers part although the runner-up was not as near as a tie."""
    return [parting for parting in told["partings"] if parting["gap"] is None or parting["gap"] >= NEAR_TIE]


def same_answers(told):
    """For a cell: "6 of 12 (6 near ties)"."""
    near = len(told["partings"]) - len(wrong(told))
    return f"{told['equal']} of {told['compared']}" + (f" ({near} near ties)" if near else "")


def inexact(answers, label):
    """Whether the server's answers are not those of a cold run: they part from ours, and ours are a cold run's. What it
    saves by that is not held against us."""
    cold = answers.get(COLD)
    return bool(cold and label in answers and cold["compared"] and not wrong(cold) and wrong(answers[label]))
