"""Time against prefix length, generated tokens and clients at once: a line a step and opponent."""
from report.cells import interval, model_title, of_group, rows_of, status
from report.verdicts import NEAR_TIE, row_verdict

HEAD = ["step", "against", "llama-server: first token / total, ms", "skippy", "first token, times faster (95 %)",
        "total, times faster (95 %)", "tokens evaluated, llama-server / skippy", "gate"]
NOTES = ["cold: sent for the first time. repeat: the very same prompt, after another conversation took the lane. "
         "extend: the same prefix with another 16-token ending. Times at the client, of a stream; cold prompts were sent "
         "once, with the most generated tokens. Judged is the time to the first token: met when its interval, widened by "
         "what llama-server differs from itself, lies above the target, or its median does while llama-server is like "
         "itself; undecided when neither can be said. A ratio is refused when not even the faster one can be told."]


def table(run):
    rows = [line for scenario in of_group(run, "prefix") for _, row in rows_of(scenario)
            for line in _lines(scenario, row)]
    notes = [*NOTES, *(line for scenario in of_group(run, "prefix") for line in cell_lines(scenario))]
    return f"Time against prefix length: {model_title(run)}", HEAD, rows, notes


def _lines(scenario, row):
    verdict = status(scenario, row_verdict(row))
    if "against" not in row:
        return [[row["title"], *[""] * 6, verdict]]
    return [[row["title"], label, _both(clocks, "a"), _both(clocks, "b"), ratio_cell(clocks["first"]),
             ratio_cell(clocks["total"]), f"{row['evaluated'][label]:g} / {row['evaluated']['skippy']:g}", verdict]
            for label, clocks in row["against"].items()]


def _both(clocks, side):
    return " / ".join(f"{clocks[clock][side]['median']:.2f}" for clock in ("first", "total"))


def ratio_cell(timed):
    return "refused" if timed["refused"] else interval(timed["ratio"])


def cell_lines(scenario):
    """Answers, bytes and memory of each cell."""
    for name, cell in (scenario.get("cells") or {}).items():
        length, clients = name.split("/")
        memory = ", ".join(f"{label} {size(told['peak'])}" for label, told in cell["memory"].items())
        yield (f"{length} tokens, {clients} at once: {answers_line(cell['answers'])}; prefix held in "
               f"{bytes_line(cell)}; processes at most {memory}.")


def answers_line(answers):
    between = answers["between"]
    warm = ", ".join(f"{label} {told['equal']} of {told['compared']}" for label, told in answers["warm as cold"].items())
    near = sum(1 for parting in between["partings"] if is_near_tie(parting))
    ties = f" ({near} near ties)" if near else ""
    return (f"warm answers equal to the same server's cold ones: {warm}; skippy's equal to llama-server's "
            f"{between['equal']} of {between['compared']}{ties}")


def is_near_tie(parting):
    """Also where the answers did not part when they were asked for again."""
    return parting["position"] is None or (parting["gap"] is not None and parting["gap"] < NEAR_TIE)


def bytes_line(cell):
    return ", ".join(f"{label} {size(told['bytes'])} ({told['source']})" for label, told in cell["cache_bytes"].items())


def size(count):
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"
