"""A server whose answers are not those of a cold run: what it saves by that is told, and not held against ours."""
import types
import unittest

import token_scenario
from report import tokens
from report.verdicts import COLD, inexact

EQUAL = {"compared": 2, "equal": 2, "partings": []}
TIE = {"compared": 2, "equal": 1, "partings": [{"position": 3, "gap": 0.1}]}
WRONG = {"compared": 2, "equal": 1, "partings": [{"position": 3, "gap": 2.6}]}
SHORTER = {"compared": 2, "equal": 1, "partings": [{"position": 3, "gap": None}]}
BENCH = types.SimpleNamespace(any_position=True, settings=types.SimpleNamespace(ubatch=256))
OURS, PEER = "skippy", "llama-server, best settings"


def scenario(answers):
    def row(evaluated):
        return {"rounds": [{"evaluated": evaluated, "ideal": 100, "ratio": evaluated / 100, "branches": 0, "requests": 2,
                            "prompt_tokens": 300, "problems": []}]}
    return {"title": "t", "group": "tokens", "status": "done", "answers": answers,
            "contestants": {OURS: row(150), PEER: row(110)}}


class Inexact(unittest.TestCase):
    def test_only_what_parts_by_more_than_a_tie_from_a_run_that_is_a_cold_ones(self):
        for theirs, expected in ((EQUAL, False), (TIE, False), (WRONG, True), (SHORTER, True)):
            self.assertEqual(inexact({COLD: EQUAL, PEER: theirs}, PEER), expected)
        self.assertFalse(inexact({PEER: WRONG}, PEER), "nobody knows who is right")
        self.assertFalse(inexact({COLD: WRONG, PEER: WRONG}, PEER), "ours may be the wrong one")
        self.assertFalse(inexact({COLD: EQUAL}, PEER))

    def gate(self, answers):
        return token_scenario.gate(scenario(answers), OURS, [PEER], BENCH, "peer")

    def test_the_gate_holds_ours_against_exact_peers_only(self):
        self.assertEqual(self.gate({COLD: EQUAL, PEER: TIE})["why_not"], [f"more than {PEER}"])
        self.assertTrue(self.gate({COLD: EQUAL, PEER: WRONG})["met"])

    def test_the_table_says_so(self):
        def cell(answers):
            result = {**scenario(answers), "gate": {"met": True}}
            return tokens.table({"model": {"file": "m", "synthetic": False}, "scenarios": {"s": result}})[2][0][6]
        self.assertEqual(cell({COLD: EQUAL, PEER: WRONG}), "1.10 inexact")
        self.assertEqual(cell({COLD: EQUAL, PEER: EQUAL}), "1.10")


if __name__ == "__main__":
    unittest.main()
