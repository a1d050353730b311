"""A line a scenario, a column a model: every run at a glance."""
from labels import BEST, OURS
from report import use_cases
from report.cells import interval, of_group, ratio_cell, rows_of, status
from report.markdown import markdown_of
from report.provenance import provenance_of_all
from report.verdicts import steady_cpu


def headline(results):
    real_first = sorted(results, key=lambda run: run["model"]["synthetic"])
    made = [matrix(real_first) for matrix in (tokens_matrix, use_matrix, speed_matrix)]
    parts = [markdown_of(*table) for table in made if table[2]]
    if any(run["model"]["synthetic"] for run in results):
        parts.append("\\* random weights in the family's real layout.")
    return "\n\n".join([*parts, f"Measured with `bench/compare/run.py`: {provenance_of_all(results)}."])


def tokens_matrix(runs):
    return _matrix("Prompt tokens evaluated, as multiples of a perfect prefix tree's: skippy / llama-server at its "
                   "best settings for the scenario", runs, "tokens", _tokens_cells)


def use_matrix(runs):
    return _matrix("Use cases, twelve requests each: prompt tokens evaluated as multiples of a perfect prefix tree's, "
                   "skippy / llama-server at its best settings, and the seconds that all twelve took", runs, "use",
                   use_cases.cells)


def speed_matrix(runs):
    return _matrix("Times faster than llama-server, with the interval of the median (95 %)", runs, "speed",
                   _speed_cells)


def _matrix(title, runs, group, cells_of):
    by_run = [(run, {name: cell for scenario in of_group(run, group) for name, cell in cells_of(scenario)})
              for run in runs]
    by_run = [(run, cells) for run, cells in by_run if cells]
    names = dict.fromkeys(name for _, cells in by_run for name in cells)
    mark = {True: " \\*", False: ""}
    head = [""] + [run["model"]["file"].removesuffix(".gguf") + mark[run["model"]["synthetic"]] for run, _ in by_run]
    return title, head, [[name] + [cells.get(name, "not measured") for _, cells in by_run] for name in names], []


def _tokens_cells(scenario):
    by_label = scenario.get("contestants") or {}
    rounds = [by_label.get(label, {}).get("rounds") for label in (OURS, BEST)]
    texts = [ratio_cell([r["ratio"] for r in of_one]) if of_one else "?" for of_one in rounds]
    yield scenario["title"], status(scenario, " / ".join(texts))


def _speed_cells(scenario):
    for _, row in rows_of(scenario):
        text = "refused: the machine was too noisy" if row["refused"] else interval(row["ratio"])
        if row["refused"] and steady_cpu(row):
            text = f"{interval(row['cpu']['ratio'])} by CPU time"
        if "server_ms" in row:
            text += f", {row['server_ms']:.2f} ms in the server"
        yield row["title"], status(scenario, text)
