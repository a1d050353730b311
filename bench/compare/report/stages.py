"""A model in stages against the whole one, and against llama-server over RPC."""
from report.cells import interval, model_title, of_group, rows_of

HEAD = ["step", "whole ms", "three stages ms", "times the whole", "llama-server over RPC ms", "times the whole"]


def table(run):
    rows, notes = [], []
    for scenario in of_group(run, "stages"):
        for _, row in rows_of(scenario):
            rows.append([row["title"] + (", total" if row["clock"] == "total" else ", first token"),
                         *(f"{row['medians'][who]:.2f}" for who in ("whole", "stages")), interval(row["whole"]["ratio"]),
                         f"{row['medians']['rpc']:.2f}", interval(row["rpc_against_whole"])])
        if "answers_equal" in scenario:
            equal, compared = scenario["answers_equal"]
            memory = ", ".join(f"{label} {one['peak'] / 2**20:.0f} MiB" for label, one in scenario["memory"].items())
            notes.append(f"Answers in stages equal to the whole model's: {equal} of {compared}. Memory at most, all "
                         f"processes of a server together: {memory}.")
    return f"In stages, all on one machine: {model_title(run)}", HEAD, rows, notes

