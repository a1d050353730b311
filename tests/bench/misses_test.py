"""What is said of missed targets."""
import unittest

from report import misses
from stored import Stored


def a_row(ours, best, why_not=None, inexact=False):
    answers = {misses.BEST: {"compared": 2, "equal": 1, "partings": [{"position": 1, "gap": 3.0}]}} if inexact else {}
    return {"title": "t", "gate": {"met": not why_not, "why_not": why_not}, "answers": answers,
            "contestants": {label: {"rounds": [{"ratio": ratio}]} for label, ratio in
                            ((misses.OURS, ours), (misses.BEST, best))}}


def a_run(file, scenario, synthetic=False):
    return {"model": {"file": file, "synthetic": synthetic}, "scenarios": {"s": scenario}}


def tokens(row):
    return {"group": "tokens", "status": "done", **row}


def lines(*runs, causes=()):
    return [line for line in misses.section(Stored(runs=list(runs), misses=list(causes))).splitlines() if line.startswith("- ")]


class MissesTest(unittest.TestCase):
    def test_nothing_missed_is_said(self):
        self.assertIn("None of those", misses.section(Stored(runs=[a_run("a", tokens(a_row(1.0, 1.0, [])))])))

    def test_a_missed_gate_stands_once_with_its_models_and_its_cause(self):
        row = tokens(a_row(1.6, 1.3, ["more"]))
        causes = [{"title": "other", "text": "no"}, {"title": "t", "text": "since it is so."}]
        self.assertEqual(lines(a_run("a", row), a_run("b", row, True), causes=causes),
                         ["- **t**, a, b (synthetic weights): more. Cause: since it is so."])

    def test_a_cause_may_be_one_models(self):
        row = tokens(a_row(1.6, 1.3, ["more"]))
        told = lines(a_run("a", row), a_run("b", row), causes=[{"model": "b", "text": "b's."}])
        self.assertEqual(told, ["- **t**, a: more. Cause: not examined yet.", "- **t**, b: more. Cause: b's."])

    def test_without_a_gate_the_figures_decide_beyond_noise(self):
        def free(ours, best):
            row = tokens(a_row(ours, best))
            del row["gate"]
            return row
        self.assertEqual(len(lines(a_run("a", free(1.94, 1.0)))), 1)
        self.assertEqual(lines(a_run("a", free(1.02, 1.0)), a_run("b", free(1.0, 2.0))), [])

    def test_use_cases_are_looked_at_kind_by_kind(self):
        rows = {"rag": {**a_row(1.5, 1.0, ["more"]), "title": "RAG"}, "chat": a_row(1.0, 1.0, [])}
        use = {"group": "use", "status": "done", "title": "use cases", "rows": rows}
        self.assertEqual(lines(a_run("a", use)), ["- **RAG**, a: more. Cause: not examined yet."])

    def test_times_later_than_wanted_are_told(self):
        rows = {"late": {"title": "cold", "verdict": "MISSED", "why": ["0.90 times as fast"]},
                "met": {"title": "warm", "verdict": "met"}, "open": {"title": "noise", "verdict": "undecided"}}
        slow = {"title": "decode", "ratio": {"median": 0.9}, "target": 0.97, "refused": None}
        runs = [a_run("a", {"group": "prefix", "status": "done", "title": "times", "rows": rows}),
                a_run("b", {"group": "speed", "status": "done", "title": "decode", "rows": {"decode": slow}})]
        self.assertEqual(lines(*runs), [
            "- **cold**, a: 0.90 times as fast. Cause: not examined yet.",
            "- **decode**, b: 0.90 times as fast, at least 0.97 wanted. Cause: not examined yet."])

    def test_edits_in_long_messages_are_told_place_by_place(self):
        def edits(*evaluated):
            return {"rounds": [{"ratio": 1.0, "entries": [{"evaluated": n} for n in (4000, *evaluated)]}]}
        row = tokens({"title": "t", "gate": {"met": True, "why_not": []}, "contestants": {
            misses.OURS: edits(2000, 1000, 400, 200), misses.BEST: edits(4000, 4000, 4000, 4000)}})
        def of(policy):
            told = a_run("a", row)
            return {**told, "model": {**told["model"], "policy": policy}, "scenarios": {"long_edit": row}}
        self.assertEqual(lines(of("resident_kv")), [])
        self.assertIn("2.0 at 50%, 4.0 at 75%, 10.0 at 90%, 20.0 at 95% of the message", lines(of("kv_recurrent"))[0])


if __name__ == "__main__":
    unittest.main()
