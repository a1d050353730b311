"""What the cache costs in time and memory."""
from report.cells import model_title, of_group, rows_of, status
from report.verdicts import row_verdict

HEAD = ["measured", "value", "bound", "gate"]


def table(run):
    rows = [[row["title"], row["value"], row["bound"], status(scenario, row_verdict(row))]
            for scenario in of_group(run, "cost") for _, row in rows_of(scenario)]
    return f"What the cache costs: {model_title(run)}", HEAD, rows, []
