"""Medians, spreads and ratios, and the rule that says when a ratio must not be given.

Pure functions. A *round* of two contestants is measured in the order A, B, B, A, so that a machine that gets
steadily slower or faster during the round favours neither.
"""
from dataclasses import asdict, dataclass


def quantile(values, q):
    """Linear interpolation between closest ranks; q in [0, 1]."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a quantile of no values")
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def median(values):
    return quantile(values, 0.5)


@dataclass(frozen=True)
class Spread:
    median: float
    low: float       # smallest
    high: float      # largest
    q1: float
    q3: float
    n: int

    def relative_iqr(self):
        return (self.q3 - self.q1) / self.median if self.median else float("inf")

    def as_dict(self):
        return asdict(self)


def spread(values):
    return Spread(median(values), min(values), max(values), quantile(values, 0.25), quantile(values, 0.75), len(values))


def round_ratio(a_first, b_first, b_second, a_second):
    """How many times longer A took than B in one round."""
    return (a_first + a_second) / (b_first + b_second)


def refusal(same_against_same, limit):
    """Why a ratio measured beside this A/A check must not be given; None when it may.

    `same_against_same` is the spread of the ratios of a server against another instance of itself. Both its
    median and its quartiles must lie within `limit` of 1.
    """
    if abs(same_against_same.median - 1) > limit:
        return f"the same server differs from itself by {100 * abs(same_against_same.median - 1):.1f} %, limit {100 * limit:.0f} %"
    width = max(abs(same_against_same.q1 - 1), abs(same_against_same.q3 - 1))
    if width > limit:
        return f"the same server against itself spreads over {100 * width:.1f} %, limit {100 * limit:.0f} %"
    return None
