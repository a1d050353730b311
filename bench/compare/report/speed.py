"""Ratios of times, each with its spread and with what says how far to believe it."""
from report.cells import interval, model_title, of_group, rows_of, status
from report.verdicts import row_verdict, steady_cpu

HEAD = ["measured", "llama-server", "skippy", "times faster (95 %)", "llama-server against itself", "gate"]
NOTES = ["Medians over interleaved rounds (A, B, B, A), in brackets where the true median lies with 95 %; every sample "
         "is in the result file. A ratio is refused when llama-server differs too much from another instance of itself "
         "in the same minutes; what only computes is then judged by the CPU time of the servers, under the same rule."]


def table(run):
    rows = [_row(scenario, row) for scenario in of_group(run, "speed") for _, row in rows_of(scenario)]
    return f"Speed: {model_title(run)}", HEAD, rows, NOTES


def _row(scenario, row):
    unit = row["unit"]
    ratio = "refused" if row["refused"] else interval(row["ratio"])
    if steady_cpu(row):
        ratio += f"; CPU time {interval(row['cpu']['ratio'])}"
    ours = f"{row['b']['median']:.2f} {unit}"
    if "server_ms" in row:
        ours += f" ({row['server_ms']:.2f} in the server)"
    return [row["title"], f"{row['a']['median']:.2f} {unit}", ours, ratio, interval(row["same_against_same"]),
            status(scenario, row_verdict(row))]
