"""Tokens evaluated, scenario by scenario, against the ideal of a perfect prefix tree."""
from report.cells import many, model_title, of_group, ratio_cell, status
from labels import COLD
from report.verdicts import NEAR_TIE, inexact, met_word, same_answers

HEAD = ["scenario", "requests", "prompt tokens", "ideal", "skippy", "llama-server", "llama-server, best settings",
        "same answers", "gate"]
NOTES = ["Prompt tokens evaluated, as a multiple of what a perfect prefix tree evaluates; 1.00 is the best possible. "
         "Same answers: greedy answers equal to those of a run without a cache, or else of llama-server; near ties: "
         f"the answers that part where the runner-up was less than {NEAR_TIE} nats behind. Inexact: answers that part from "
         "a cold run's by more, where skippy's do not: what that server saves so is not held against skippy."]


def table(run):
    scenarios = of_group(run, "tokens")
    notes = [scenario["note"] for scenario in scenarios if "note" in scenario]
    return f"Tokens evaluated: {model_title(run)}", HEAD, [_row(s) for s in scenarios], [" ".join(NOTES + notes)]


def _row(scenario):
    by_label = scenario.get("contestants") or {}
    if not by_label:
        return [scenario["title"], *[""] * 7, scenario["status"]]
    first = next(iter(by_label.values()))["rounds"]
    cells = [scenario["title"], str(first[0]["requests"]), many(first, "prompt_tokens"), many(first, "ideal")]
    for label in HEAD[4:7]:
        rounds = by_label.get(label, {}).get("rounds")
        cells.append(ratio_cell([r["ratio"] for r in rounds]) + " inexact" * inexact(scenario.get("answers", {}), label)
                     if rounds else "")
    cells.append(_answers(scenario.get("answers", {})))
    cells.append(status(scenario, met_word(scenario["gate"]["met"]) if "gate" in scenario else ""))
    return cells


def _answers(answers):
    """The own cold run where there was one: it says more than another program's answers."""
    label = next((name for name in (COLD, "llama-server") if name in answers), None)
    if label is None:
        return ""
    return same_answers(answers[label])
