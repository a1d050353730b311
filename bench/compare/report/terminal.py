"""Tables in columns, and after them what failed, what was missed and what was refused, with the reasons."""
from report.cells import rows_of


def terminal_of(tables, results):
    parts = [_columns(*table) for table in tables]
    scenarios = [(name, scenario) for run in results for name, scenario in run["scenarios"].items()]
    parts += [f"{name}: {scenario['status']}: {scenario['error']}" for name, scenario in scenarios
              if "error" in scenario]
    parts += [f"{name}: {reason}" for name, scenario in scenarios
              for reason in scenario.get("gate", {}).get("why_not", [])]
    parts += [f"{name}/{key}: {row['refused']}" for name, scenario in scenarios
              for key, row in rows_of(scenario) if row.get("refused")]
    return "\n\n".join(parts)


def _columns(title, head, rows, notes):
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [head, *rows]]
    return "\n".join([title, *lines, *notes])
