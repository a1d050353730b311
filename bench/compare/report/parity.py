"""Whether both servers generate the same greedy text."""
from report.cells import model_title, of_group

HEAD = ["prompt tokens", "generated", "answers"]


def table(run):
    rows = [_row(row) for scenario in of_group(run, "parity") for row in scenario.get("rows", [])]
    return f"Cold greedy answers, skippy against llama-server: {model_title(run)}", HEAD, rows, []


def _row(row):
    at = row["first_difference"]
    verdict = "equal" if at is None else f"parts at token {at}"
    if at is not None and row["gap_there"] is not None:
        verdict += f", runner-up {row['gap_there']:.2f} nats behind"
    return [str(row["prompt_tokens"]), str(row["compared"]), verdict]
