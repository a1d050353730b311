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
        self.assertIn("1.100 to 1.100", stats.refusal(stats.spread([1.1, 1.1, 1.1]), 0.03))

    def test_a_spread_machine_is_refused_though_its_median_is_one(self):
        self.assertIn("0.800 to 1.200", stats.refusal(stats.spread([0.8, 0.9, 1.0, 1.1, 1.2]), 0.03))

    def test_one_outlier_is_not_a_spread(self):
        self.assertIsNone(stats.refusal(stats.spread([1.0] * 8 + [1.5]), 0.03))

    def test_the_interval_of_the_median_by_the_table_of_the_sign_test(self):
        # n, smallest and largest rank (from 1) at 95 %
        for n, low, high in ((3, 1, 3), (6, 1, 6), (8, 1, 8), (9, 2, 8), (12, 3, 10), (20, 6, 15), (25, 8, 18)):
            self.assertEqual(stats.median_interval(range(1, n + 1)), (low, high), n)

    def test_more_rounds_make_a_noisy_machine_usable(self):
        few = [0.9, 0.98, 1.0, 1.02, 1.1]
        self.assertIsNotNone(stats.refusal(stats.spread(few), 0.03))
        self.assertIsNone(stats.refusal(stats.spread(few * 8), 0.03))

    def test_a_large_ratio_is_given_though_the_machine_is_noisy(self):
        same, forty = stats.spread([0.8, 1.0, 1.25]), stats.spread([35, 40, 48])
        self.assertEqual(stats.widened(forty, same), (35 / 1.25, 48 * 1.25))
        self.assertIsNone(stats.refusal_of_ratio(forty, same, 0.05))
        self.assertEqual(stats.verdict(forty, same, 0.05, 5.0), "met")
        self.assertEqual(stats.verdict(forty, same, 0.05, 61.0), "MISSED")
        self.assertEqual(stats.verdict(forty, same, 0.05, 50.0), "undecided")

    def test_a_ratio_near_one_needs_a_quiet_machine(self):
        near = stats.spread([0.95, 0.98, 1.04])
        noisy, quiet = stats.spread([0.8, 1.0, 1.25]), stats.spread([0.99, 1.0, 1.02])
        self.assertIn("the ratio may be 0.76 to 1.30", stats.refusal_of_ratio(near, noisy, 0.05))
        self.assertEqual(stats.verdict(near, noisy, 0.05, 0.97), "undecided")
        self.assertIsNone(stats.refusal_of_ratio(near, quiet, 0.05))
        self.assertEqual(stats.verdict(near, quiet, 0.05, 0.97), "met")
        self.assertEqual(stats.verdict(near, quiet, 0.05, 0.99), "MISSED")

    def test_slower_beyond_doubt_is_told_as_such(self):
        slow, noisy = stats.spread([0.5, 0.6, 0.7]), stats.spread([0.9, 1.0, 1.2])
        self.assertIsNone(stats.refusal_of_ratio(slow, noisy, 0.05))
        self.assertEqual(stats.verdict(slow, noisy, 0.05, 0.97), "MISSED")


if __name__ == "__main__":
    unittest.main()
