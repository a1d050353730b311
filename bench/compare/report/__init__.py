"""Tables and verdicts from stored results: one file a subject, one here to add a new one to `TABLES`.

A table is (title, head, rows, notes): strings, a list of strings, a list of lists of strings, a list of strings.
`table(run)` of every subject makes the table of one stored run; a table without rows is left out.
"""
from report import cost, parity, prefix, speed, stages, token_rows, tokens, use_cases
from report.headline import headline
from report.markdown import markdown_of
from report.provenance import provenance
from report.terminal import terminal_of
from report.verdicts import NEAR_TIE, missed, row_verdict, verdicts

__all__ = ["NEAR_TIE", "as_markdown", "as_terminal", "headline", "missed", "provenance", "row_verdict", "tables",
           "verdicts"]

TABLES = (tokens.table, token_rows.table, use_cases.table, speed.table, cost.table, parity.table, prefix.table, stages.table)


def tables(results):
    """`results`: the stored runs, one a model."""
    made = [table(run) for table in TABLES for run in results]
    return [table for table in made if table[2]]


def as_terminal(results):
    return terminal_of(tables(results), results)


def as_markdown(results):
    return "\n\n".join([markdown_of(*table) for table in tables(results)] + [provenance(run) for run in results])
