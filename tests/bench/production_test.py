"""The production table."""
import unittest

from prefix_results import BEST, row, run, timed, whole
from report import production
from stored import Stored

TITLES = [{"family": "llama", "title": "Llama", "policy": "resident_kv", "problem": ""},
          {"family": "mamba", "title": "Mamba", "policy": "kv_recurrent", "problem": ""},
          {"family": "deepseek4", "title": "DeepSeek-V4", "policy": "off", "problem": "not exact"}]


def rows_of(stored):
    return {cells[0]: cells for cells in production.compact_table(stored)[2]}


class ProductionTest(unittest.TestCase):
    def test_a_row_a_family_measured_or_not(self):
        rows = rows_of(Stored(families=[whole()], titles=TITLES))
        self.assertEqual(rows["Llama"], ["Llama", "real", "resident_kv"] + ["5.0x (10.0 to 2.0)"] * 4 + ["4 of 8 / same / 6 of 6"])
        self.assertEqual(rows["Mamba"], ["Mamba", "not measured", "kv_recurrent"] + [""] * 5)
        self.assertIn("not exact", rows["DeepSeek-V4"][2])

    def test_synthetic_models_are_marked_and_share_a_row_by_length(self):
        mamba = {"synthetic": True, "family": "mamba", "policy": "kv_recurrent"}
        runs = [whole(lengths=(length,), file=f"mamba-{size}.gguf", **mamba)
                for size, length in (("mini", 4096), ("small", 128))]
        self.assertEqual(rows_of(Stored(families=runs, titles=TITLES))["Mamba"][1:],
                         ["mamba-mini \\*, mamba-small \\*", "kv_recurrent"] + ["5.0x (10.0 to 2.0)"] * 4 + ["4 of 8 / same / 6 of 6"])

    def test_a_prompt_longer_than_the_models_context_says_so(self):
        unfit = {"step": "repeat", "prompt_tokens": 4096, "generated": 1, "concurrency": 1, "verdict": "does not fit"}
        told = run([row(128, 1, "repeat", {"llama-server": timed(10.0, 2.0)})])
        told["scenarios"]["prefix_reuse"]["rows"]["4096/1/1/repeat"] = unfit
        self.assertEqual(rows_of(Stored(families=[told], titles=TITLES))["Llama"][3:7],
                         ["5.0x (10.0 to 2.0)", "", "longer than its context", ""])

    def test_a_real_model_stands_alone(self):
        runs = [whole(theirs=50.0, file="llama-small.gguf", synthetic=True), whole()]
        self.assertEqual(rows_of(Stored(families=runs, titles=TITLES))["Llama"][1], "real")

    def test_whole_states_never_appear(self):
        stored = Stored(families=[whole(policy="full_state", file="whole.gguf")], titles=TITLES)
        self.assertEqual(rows_of(stored)["Llama"][1], "not measured")
        self.assertNotIn("full_state", production.page(stored).replace("whole.gguf", ""))

    def test_the_faster_llama_server_is_compared(self):
        told = run([row(128, 1, "repeat", {"llama-server": timed(10.0, 2.0), BEST: timed(6.0, 2.0)})])
        self.assertEqual(rows_of(Stored(families=[told], titles=TITLES))["Llama"][3], "3.0x (6.0 to 2.0)")

    def test_where_noise_hides_which_is_faster_no_ratio_is_given(self):
        told = run([row(128, 1, "repeat", {"llama-server": timed(3.0, 2.0, wide=True)})])
        self.assertEqual(rows_of(Stored(families=[told], titles=TITLES))["Llama"][3], "undecided (3.0 to 2.0)")

    def test_a_noisy_cold_prompt_is_told_by_cpu_time(self):
        cold = row(128, 16, "cold", {"llama-server": timed(3.0, 2.0, wide=True)})
        cold["against"]["llama-server"]["cpu"] = timed(2.1, 2.0)
        page = production.page(Stored(families=[run([cold])], titles=TITLES))
        self.assertIn("| 3.0 / 2.0 | 1.05 (1.05 to 1.05) by CPU time |", page)

    def test_how_many_repeats_were_answered_as_the_first_time(self):
        odd = whole(family="mamba", policy="kv_recurrent", file="mamba.gguf", lengths=(128,))
        odd["scenarios"]["prefix_reuse"]["cells"]["128/1"]["answers"]["warm as cold"][BEST] = {"compared": 5, "equal": 0}
        several = whole(lengths=(128,), file="several.gguf")     # a batch of several shifts near ties: not counted
        several["scenarios"]["prefix_reuse"]["cells"]["128/1"]["answers"]["clients"] = 4
        stored = Stored(families=[whole(lengths=(128,)), several, odd], titles=TITLES)
        self.assertEqual(rows_of(stored)["Mamba"][-1], "2 of 4 / 0 of 5 / 3 of 3")
        self.assertIn("skippy answered 6 of 6 as the first time, llama-server 4 of 8 (0 of 5 at its best settings",
                      production.headline(stored))

    def test_slower_is_said_with_its_cause(self):
        slow = run([row(128, 16, "repeat", {"llama-server": timed(10.0, 12.5)}, "MISSED")])
        stored = Stored(families=[slow], titles=TITLES)
        self.assertEqual(rows_of(stored)["Llama"][4], "0.80x (10.0 to 12.5), slower")
        self.assertIn("Cause: not examined yet.", production.page(stored))
        self.assertIn("0 are met, 0 undecided, 1 missed; 3 lines say", production.headline(stored))
        stored.causes = [{"text": "other", "family": "mamba"}, {"text": "other", "step": "cold"},
                         {"text": "it waits.", "family": "llama", "step": "repeat", "prompt_tokens": 128},
                         {"text": "late"}]
        self.assertIn("Cause: it waits.", production.page(stored))
        self.assertIn("repeat/16 MISSED", production.page(stored))

    def test_nothing_slower_is_said_too(self):
        self.assertIn("Nowhere beyond doubt.", production.page(Stored(families=[whole()], titles=TITLES)))

    def test_the_full_table_has_bytes_with_their_source_and_no_ragged_row(self):
        stored = Stored(families=[whole()], titles=TITLES)
        for length in production.LENGTHS:
            _, head, rows, _ = production.full_table(stored, length)
            self.assertTrue(all(len(cells) == len(head) for cells in rows))
        self.assertIn("128 KiB (derived) / 256 KiB (measured)", production.page(stored))

    def test_without_any_result_there_is_no_headline(self):
        self.assertEqual(production.headline(Stored()), "")

    def test_a_scenario_that_failed_before_its_first_row(self):
        broken = run([])
        broken["scenarios"]["prefix_reuse"] = {"group": "prefix", "title": "t", "status": "failed", "error": "died"}
        self.assertEqual(rows_of(Stored(families=[broken], titles=TITLES))["Llama"][1:3], ["real", "resident_kv"])


if __name__ == "__main__":
    unittest.main()
