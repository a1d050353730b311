"""Medians, round ratios and the refusal of noisy ones."""
import unittest

import stats


class StatsTest(unittest.TestCase):
    def test_quantiles_interpolate_between_ranks(self):
        self.assertEqual(stats.quantile([4, 1, 3, 2], 0.5), 2.5)
        self.assertEqual(stats.quantile([1, 2, 3, 4, 5], 0.25), 2)
        self.assertEqual(stats.quantile([7], 0.9), 7)

    def test_a_quantile_of_nothing_is_an_error(self):
        with self.assertRaises(ValueError):
            stats.median([])

    def test_a_steady_drift_cancels_in_a_round(self):
        # Each leg is a tenth slower than the first leg, twice, three times: A, B, B, A of equal servers.
        self.assertAlmostEqual(stats.round_ratio(1.0, 1.1, 1.2, 1.3), 1.0)

    def test_a_ratio_above_one_means_that_the_second_is_faster(self):
        self.assertEqual(stats.round_ratio(10, 2, 2, 10), 5)

    def test_a_quiet_machine_is_not_refused(self):
        self.assertIsNone(stats.refusal(stats.spread([0.99, 1.0, 1.01]), 0.03))

    def test_a_biased_machine_is_refused(self):
        self.assertIn("differs from itself", stats.refusal(stats.spread([1.1, 1.1, 1.1]), 0.03))

    def test_a_spread_machine_is_refused_though_its_median_is_one(self):
        self.assertIn("spreads over", stats.refusal(stats.spread([0.8, 0.9, 1.0, 1.1, 1.2]), 0.03))

    def test_one_outlier_is_not_a_spread(self):
        self.assertIsNone(stats.refusal(stats.spread([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5]), 0.03))


if __name__ == "__main__":
    unittest.main()
