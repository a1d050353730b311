"""What is claimed of the times of use cases, and what their tables say."""
import unittest

from report import use_cases as table_of
from scenarios.use_cases import times_less


def a_run(ours, best, status="done"):
    def told(ratio, seconds):
        return {"rounds": [{"requests": 12, "prompt_tokens": 1200, "ideal": 100, "evaluated": round(100 * ratio),
                            "ratio": ratio, "cached_by_tier": {"device": 900, "host": 0}, "seconds": s,
                            "first_ms": {"p50": 10.0, "p95": 20.0, "p99": 30.0},
                            "cache_bytes": {"lanes": {"bytes": 2**20, "source": "derived"}}} for s in seconds]}
    row = {"title": "text-to-SQL", "gate": {"met": True}, "times": {table_of.BEST: times_less(best[1], ours[1])},
           "contestants": {table_of.OURS: told(*ours), table_of.BEST: told(*best)},
           "answers": {table_of.BEST: {"compared": 12, "equal": 11, "partings": [{"position": 3, "gap": 0.1}]}}}
    scenario = {"title": "use cases", "group": "use", "status": status, "rows": {"text_to_sql": row}}
    return {"model": {"file": "m.gguf", "synthetic": False}, "scenarios": {"use_cases": scenario}}


def cell(run):
    return dict(table_of.cells(run["scenarios"]["use_cases"]))["text-to-SQL"]


class UseCasesTest(unittest.TestCase):
    def test_a_clear_difference_is_told_in_both_directions(self):
        fast, slow = [2.0, 2.02, 1.98, 2.0], [6.0, 6.1, 6.2, 6.0]
        self.assertEqual(cell(a_run((1.0, fast), (1.35, slow))), "1.00 / 1.35, 2 / 6 s (3.01x less)")
        self.assertEqual(cell(a_run((1.0, slow), (1.35, fast))), "1.00 / 1.35, 6 / 2 s (3.01x more)")

    def test_nothing_is_claimed_within_the_noise(self):
        steady = a_run((1.0, [2.0, 2.1, 2.0, 2.1]), (1.0, [2.1, 2.0, 2.1, 2.0]))
        self.assertEqual(cell(steady), "1.00 / 1.00, 2 / 2 s (alike)")
        wavering = a_run((1.0, [2.0, 4.0, 2.0, 3.0]), (1.0, [4.0, 2.0, 5.0, 6.0]))
        self.assertEqual(cell(wavering), "1.00 / 1.00, 2 / 4 s (undecided)")

    def test_few_rounds_are_not_compared(self):
        run = a_run((1.0, [1.0, 1.0, 1.0]), (1.0, [9.0, 9.0, 9.0]))
        self.assertEqual(cell(run), "1.00 / 1.00, 1 / 9 s (one after the other, not compared)")
        self.assertIn("not compared: fewer than 4 rounds", table_of.table(run)[2][1])

    def test_the_table_has_a_line_a_server(self):
        _, head, rows, _ = table_of.table(a_run((1.0, [2.0] * 4), (1.2, [4.0] * 4), status="partial"))
        self.assertEqual([len(row) for row in rows], [len(head)] * 2)
        ours, best = (dict(zip(head, row)) for row in rows)
        self.assertEqual(ours["gate"], "met partial")
        self.assertEqual(ours["cached, by tier"], "device 900")
        self.assertEqual(best["skippy takes"], "2.00 (2.00 to 2.00) times less")
        self.assertEqual(best["first token, ms"], "10 / 20 / 30")
        self.assertEqual(best["cache, MiB"], "lanes 1.0 (derived)")
        self.assertEqual(best["answers as skippy"], "11 of 12 (1 near ties)")

    def test_a_use_case_that_was_interrupted_has_lines_without_verdict(self):
        run = a_run((1.0, [2.0]), (1.2, [4.0]), status="partial")
        row = run["scenarios"]["use_cases"]["rows"]["text_to_sql"]
        for key in ("gate", "times", "answers"):
            del row[key]
        del row["contestants"][table_of.BEST]
        self.assertEqual(cell(run), "1.00 / ? partial")
        self.assertEqual(len(table_of.table(run)[2]), 1)


if __name__ == "__main__":
    unittest.main()
