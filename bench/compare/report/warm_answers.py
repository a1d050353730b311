"""Whether a prompt that comes again gets the greedy answer that it got the first time, from each server.

Where it does not, the server resumed from state that lacks something, or evaluated what was left of the prompt in
another batch than the first time, which turns near ties over.
"""
from labels import BEST, DEFAULT, OURS

ORDER = (DEFAULT, BEST, OURS)
TITLE = "answers of repeats equal to the first time's: llama-server / at best settings / skippy"


def counted(runs):
    """{label: [equal, compared]} of all cells with one client."""
    sums = {}
    for run in runs:
        for cell in (run["scenarios"].get("prefix_reuse", {}).get("cells") or {}).values():
            if cell["answers"]["clients"] == 1:
                for label, told in cell["answers"]["warm as cold"].items():
                    sums.setdefault(label, [0, 0])
                    sums[label][0] += told["equal"]
                    sums[label][1] += told["compared"]
    return sums


def cells(runs):
    """For a table: one text, empty where nothing was measured."""
    sums = counted(runs)
    return " / ".join(_of(sums, label) for label in ORDER) if sums else ""


def sentence(runs):
    """Over all families; of the best settings only where they change something."""
    sums = counted(runs)
    if not all(label in sums for label in (DEFAULT, OURS)):
        return ""
    best = f" ({_of(sums, BEST)} at its best settings, where those differ)" if BEST in sums else ""
    return (f"Of all exact repeats, skippy answered {_of(sums, OURS)} as the first time, llama-server "
            f"{_of(sums, DEFAULT)}{best}.")


def _of(sums, label):
    return "{} of {}".format(*sums[label]) if label in sums else "same"
