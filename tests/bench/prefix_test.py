"""The scenario prefix_reuse: its axes, its judgement, its table."""
import unittest
from argparse import ArgumentTypeError
from types import SimpleNamespace

import prefix_answers
import prefix_axes
import prefix_rows
import report
from prefix_cell import Cell
from prefix_results import BEST, row, run, timed


def a_cell(legs=1, clients=1):
    cell = Cell(128, (1, 16), clients, seed=1)
    for label, evaluated in (("llama-server", 16), ("skippy", 16), (BEST, 16)):
        for name in ("cold", "repeat/1", "extend/1", "repeat/16", "extend/16"):
            reply = SimpleNamespace(evaluated=evaluated, skippy={"hit_kind": "warm"},
                                    cached_by_tier=lambda: {"host": 112})
            cell.told[label, name] = [[reply] * clients] * legs
    return cell


def samples(cell, theirs, ours, same=1.0):
    of_one = {"a_a": [[10.0 * same, 10.0, 10.0, 10.0 * same]] * 2, "a_b": [[theirs, ours, ours, theirs]] * 3,
              "c_b": [[theirs / 2, ours, ours, theirs / 2]] * 3}
    names = [name if name == "cold" else f"{name}/{g}" for name, g in cell.steps]
    return {f"{name} {clock}": of_one for name in names for clock in ("first", "total", "cpu")}


class AxesTest(unittest.TestCase):
    def test_numbers_are_sorted_and_single(self):
        self.assertEqual(prefix_axes.numbers("4096,128,128"), (128, 4096))

    def test_bad_numbers_are_told(self):
        for text in ("", "128,", "many", "0", "-1,5"):
            with self.assertRaises(ArgumentTypeError):
                prefix_axes.numbers(text)


class RowsTest(unittest.TestCase):
    def test_a_row_a_step_and_the_five_fold_target_for_the_short_repeat_alone(self):
        cell = a_cell()
        rows = prefix_rows.of_cell(cell, samples(cell, 12.0, 2.0), {"llama-server": "a_b"})
        self.assertEqual(list(rows), ["128/16/1/cold", "128/1/1/repeat", "128/1/1/extend", "128/16/1/repeat",
                                      "128/16/1/extend"])
        self.assertEqual([one["target"] for one in rows.values()], [0.97, 5.0, 0.97, 0.97, 0.97])
        self.assertEqual({one["verdict"] for one in rows.values()}, {"met"})
        self.assertEqual(rows["128/1/1/repeat"]["hits"], {"kinds": {"warm": 1}, "cached_by_tier": {"host": 112}})

    def test_the_worst_opponent_decides(self):
        cell = a_cell()
        rows = prefix_rows.of_cell(cell, samples(cell, 8.0, 1.0), {"llama-server": "a_b", BEST: "c_b"})
        repeat = rows["128/1/1/repeat"]
        self.assertEqual(repeat["verdict"], "MISSED")   # 8 times by default, 4 at best settings
        self.assertIn(f"4.00 times as fast as {BEST}, at least 5.0 wanted", repeat["why"])

    def test_more_evaluated_tokens_are_a_miss_though_it_was_faster(self):
        cell = a_cell()
        cell.told["skippy", "extend/1"][0][0].evaluated = 17
        rows = prefix_rows.of_cell(cell, samples(cell, 12.0, 2.0), {"llama-server": "a_b"})
        self.assertEqual(rows["128/1/1/extend"]["verdict"], "MISSED")
        self.assertIn("evaluated 17 tokens, llama-server 16", rows["128/1/1/extend"]["why"])

    def test_cold_is_judged_by_cpu_time_where_wall_time_is_noisy(self):
        cell = a_cell()
        noisy = samples(cell, 10.0, 10.0, same=1.2)
        noisy["cold cpu"] = samples(cell, 10.0, 10.0)["cold cpu"]
        rows = prefix_rows.of_cell(cell, noisy, {"llama-server": "a_b"})
        self.assertEqual(rows["128/16/1/cold"]["verdict"], "met by CPU time")
        self.assertEqual(rows["128/1/1/extend"]["verdict"], "undecided")
        self.assertTrue(rows["128/1/1/extend"]["why"])

    def test_a_cell_that_does_not_fit_has_its_rows_without_figures(self):
        rows = prefix_rows.that_do_not_fit(Cell(16384, (1, 128), 1, seed=1), 8192)
        self.assertEqual(len(rows), 5)
        text = report.as_markdown([run(list(rows.values()))])
        self.assertIn("| does not fit |", text)
        self.assertEqual(report.missed(run(list(rows.values()))), [])

    def test_the_context_holds_prompt_ending_answer_and_is_rounded(self):
        self.assertEqual(Cell(128, (1, 16), 1, seed=1).context, 256)
        self.assertEqual(Cell(4096, (128,), 1, seed=1).context, 4352)


class AnswersTest(unittest.TestCase):
    def test_a_repeat_must_begin_the_cold_answer(self):
        cell = Cell(128, (1, 16), 1, seed=1)
        cell.answers = {("k", "cold"): {"skippy": ["one two"]}, ("k", "repeat/1"): {"skippy": ["one"]},
                        ("k", "repeat/16"): {"skippy": ["one tWo"]}}
        warm = prefix_answers.same_warm_as_cold(cell, "skippy")
        self.assertEqual(warm, {"compared": 2, "equal": 1})
        between = {"compared": 0, "equal": 0, "partings": []}
        answers = {"clients": 1, "warm as cold": {"skippy": warm}, "between": between}
        self.assertIn("1 of 2", prefix_answers.wrong(answers)[0])
        self.assertEqual(prefix_answers.wrong({**answers, "clients": 4}), [])   # batches are shared: near ties flip

    def test_partings_count_unless_near_ties(self):
        def wrong(position, gap):
            between = {"compared": 2, "equal": 1, "partings": [{"step": "cold", "position": position, "gap": gap}]}
            warm = {"skippy": {"compared": 1, "equal": 1}}
            return prefix_answers.wrong({"clients": 1, "warm as cold": warm, "between": between})
        self.assertEqual(wrong(3, 0.1), [])
        self.assertEqual(wrong(None, None), [])
        self.assertTrue(wrong(3, 2.0))
        self.assertTrue(wrong(3, None))


class TableTest(unittest.TestCase):
    def test_refused_ratios_are_not_shown_and_misses_count(self):
        told = run([row(128, 1, "repeat", {"llama-server": timed(3.33, 1.0, wide=True)}, "undecided"),
                    row(128, 1, "extend", {"llama-server": timed(3.0, 4.0)}, "MISSED")])
        text = report.as_markdown([told])
        self.assertIn("| refused | refused |", text)
        self.assertNotIn("3.33 (", text)
        self.assertIn("0.75 (0.75 to 0.75)", text)
        self.assertIn("to llama-server's 1 of 2 (1 near ties)", text)
        self.assertEqual(report.missed(told), ["prefix_reuse/128/1/1/extend"])

    def test_a_failed_scenario_shows_what_it_had_and_its_error(self):
        told = run([row(128, 1, "repeat", {"llama-server": timed(6.0, 1.0)})], status="failed", error="skippy died")
        self.assertIn("met failed", report.as_markdown([told]))
        self.assertIn("skippy died", report.as_terminal([told]))
        for _, head, rows, _ in report.tables([told]):
            self.assertTrue(all(len(cells) == len(head) for cells in rows))


if __name__ == "__main__":
    unittest.main()
