"""Eight kinds of users, twelve requests each (see corpus/): what was evaluated, and how long the twelve took.

A fresh server of each contestant plays the twelve of a kind one after the other. All rounds of a kind are played before
the next kind, every second one in turned order, so that times are compared that were taken within the same minutes and
a machine that gets slower favours nobody.
"""
from dataclasses import dataclass

import corpus
import stats
import token_scenario
from ledger import compare_answers
from servers import BenchError

NAME, GROUP, TITLE = "use_cases", "use", "use cases: twelve requests of each kind"
ROUNDS, LEAST_ROUNDS = 6, 4     # played, and needed to compare times
CONTEXT, TOKENS = 4096, 16
NOISE_LIMIT = 0.15


@dataclass(frozen=True)
class Script:
    """A kind's twelve requests, as a token scenario."""
    NAME: str
    requests: list

    def play(self, ledger, _text):
        for messages in self.requests:
            ledger.chat(messages, TOKENS)


def run(bench, result):
    try:
        cases = [corpus.load(kind) for kind in bench.use_cases]
    except corpus.CorpusError as error:
        raise BenchError(str(error)) from error
    settings = bench.settings_for(lanes=1, context=CONTEXT)
    result["rows"] = {case.name: {"title": case.title, "contestants": {}} for case in cases}
    for case in cases:
        row, script, first = result["rows"][case.name], Script(case.name, case.requests), {}
        for number in range(min(bench.rounds, ROUNDS)):
            for contestant in in_turn(bench, number):
                ledger = token_scenario.play_round(bench, row, script, contestant, settings, number)
                first.setdefault(contestant.label, ledger.entries)
        judge(bench, row, first)
    reasons = [f"{name}: {reason}" for name, row in result["rows"].items() for reason in row["gate"]["why_not"]]
    result["gate"] = {"met": not reasons, "why_not": reasons}


def in_turn(bench, number):
    contestants = bench.contestants_of(None)
    if number == 0 and bench.verify:
        contestants = [*contestants, bench.ours_without_cache]
    return contestants if number % 2 == 0 else contestants[::-1]


def judge(bench, row, entries):
    """`entries`: what each contestant answered in its first round; the others repeat it."""
    ours, *others = [contestant.label for contestant in bench.contestants]
    row["answers"] = {label: compare_answers(entries[ours], theirs)
                      for label, theirs in entries.items() if label != ours}
    row["gate"] = token_scenario.gate(row, ours, others, bench)
    seconds = {label: [played["seconds"] for played in told["rounds"]] for label, told in row["contestants"].items()}
    row["times"] = {other: times_less(seconds[other], seconds[ours]) for other in others}


def times_less(theirs, ours):
    """How many times less time the twelve took us, round by round. The contestants' own rounds, each against the next,
    are the A/A check."""
    if len(ours) < LEAST_ROUNDS:
        return {"refused": f"not compared: fewer than {LEAST_ROUNDS} rounds"}
    ratio = stats.spread([a / b for a, b in zip(theirs, ours)])
    same = stats.spread([a / b for times in (theirs, ours) for a, b in zip(times, times[1:])])
    return {"ratio": ratio.as_dict(), "same_against_same": same.as_dict(), "widened": stats.widened(ratio, same),
            "refused": stats.refusal_of_ratio(ratio, same, NOISE_LIMIT)}
