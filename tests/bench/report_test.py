"""Tables and verdicts from stored results."""
import unittest

import report


def a_run(scenarios, complete=True):
    return {"complete": complete, "started": "2030-01-02T03:04:05Z", "command": ["run.py"], "machine": {"cpu": "C", "cores": 2},
            "skippy": {"commit": "abc"}, "llama_server": {"version": "v1"},
            "model": {"file": "m.gguf", "synthetic": True}, "scenarios": scenarios}


def spread(value):
    return {"median": value, "low": value, "high": value, "sure_low": value, "sure_high": value}


def speed(ratio, refused=None, **more):
    row = {"title": "t", "unit": "ms", "target": 2.0, "a": spread(10.0), "b": spread(5.0), "ratio": spread(ratio),
           "same_against_same": spread(1.0), "refused": refused, **more}
    return {"group": "speed", "status": "done", "title": "t", "rows": {"row": row}}


class ReportTest(unittest.TestCase):
    def test_scenarios_that_were_added_later_tell_their_commit(self):
        run = a_run({"s": {**speed(3.0), "commit": "first"}, "t": {**speed(3.0), "commit": "second"}})
        self.assertIn("skippy first and second,", report.provenance(run))
        self.assertIn("skippy abc,", report.provenance(a_run({})))

    def test_a_ratio_below_its_target_is_missed(self):
        self.assertEqual(report.missed(a_run({"s": speed(1.9)})), ["s/row"])
        self.assertEqual(report.missed(a_run({"s": speed(2.0)})), [])

    def test_a_refused_ratio_is_not_shown_and_not_missed(self):
        run = a_run({"s": speed(1.23, refused="too noisy")})
        self.assertEqual(report.missed(run), [])
        self.assertNotIn("1.23", report.as_markdown([run]))
        self.assertIn("too noisy", report.as_terminal([run]))

    def test_a_refused_ratio_of_computing_is_judged_by_steady_cpu_time(self):
        def verdict(ratio, counts=True, refused=None):
            cpu = {"ratio": spread(ratio), "refused": refused}
            return report.missed(a_run({"s": speed(1.23, refused="too noisy", cpu=cpu, cpu_counts=counts)}))
        self.assertEqual(verdict(1.9), ["s/row"])
        self.assertEqual(verdict(2.1), [])
        self.assertEqual(verdict(1.9, counts=False), [])
        self.assertEqual(verdict(1.9, refused="too noisy"), [])
        run = a_run({"s": speed(1.23, refused="too noisy", cpu={"ratio": spread(2.1), "refused": None}, cpu_counts=True)})
        self.assertIn("met by CPU time", report.as_markdown([run]))
        self.assertIn("2.10", report.headline([run]))

    def test_time_inside_the_server_has_a_gate_of_its_own(self):
        slow = {"server_ms": 1.4, "server_ms_target": 1.0}
        self.assertEqual(report.missed(a_run({"s": speed(3, **slow)})), ["s/row/server"])
        self.assertEqual(report.missed(a_run({"s": speed(3, refused="too noisy", **slow)})), [])

    def test_synthetic_weights_and_interruption_are_marked(self):
        text = report.as_markdown([a_run({"s": speed(3)}, complete=False)])
        self.assertIn("synthetic", text)
        self.assertIn("Partial", text)

    def test_a_failed_scenario_shows_its_error(self):
        run = a_run({"s": {"group": "tokens", "status": "failed", "title": "t", "error": "server died"}})
        self.assertIn("server died", report.as_terminal([run]))
        self.assertIn("failed", report.as_markdown([run]))

    def test_every_row_has_as_many_cells_as_its_head(self):
        round_ = {"requests": 3, "prompt_tokens": 30, "ideal": 10, "evaluated": 12, "ratio": 1.2, "branches": 1}
        tokens = {"group": "tokens", "status": "done", "title": "t", "gate": {"met": True, "why_not": []},
                  "answers": {"llama-server": {"equal": 2, "compared": 3, "partings": [{"position": 1, "gap": 0.1}]}},
                  "contestants": {label: {"rounds": [round_]} for label in ("skippy", "llama-server")}}
        cost = {"group": "cost", "status": "done", "title": "t",
                "rows": {"r": {"title": "t", "value": "1", "bound": "2", "gate": {"met": False}}}}
        parity = {"group": "parity", "status": "done", "title": "t", "gate": {"met": True, "why_not": []},
                  "rows": [{"prompt_tokens": 9, "compared": 64, "first_difference": 3, "gap_there": 0.1}]}
        run = a_run({"a": tokens, "b": speed(3), "c": cost, "d": parity})
        made = report.tables([run])
        self.assertEqual(len(made), 4)
        for _, head, rows, _ in made:
            for row in rows:
                self.assertEqual(len(row), len(head))
                self.assertTrue(all(isinstance(cell, str) for cell in row))
        self.assertEqual(report.missed(run), ["c/r"])


if __name__ == "__main__":
    unittest.main()
