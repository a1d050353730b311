"""Medians, spreads and ratios, and the rule that says when a ratio must not be given.

Pure functions. A *round* of two contestants is measured in the order A, B, B, A, so that a machine that gets
steadily slower or faster during the round favours neither.
"""
from dataclasses import asdict, dataclass
from math import comb


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
    sure_low: float   # between these two lies the true median, see median_interval()
    sure_high: float

    def as_dict(self):
        return asdict(self)


def median_interval(values):
    """Where the true median lies with a probability of 95 %, whatever the distribution: the order statistics that
    a binomial(n, 1/2) count of smaller values falls between. Of fewer than six values that is all of them, and the
    probability is less."""
    ordered, n = sorted(values), len(values)
    cut, below = 0, 1
    while below / 2 ** n <= 0.025:
        cut += 1
        below += comb(n, cut)
    cut = max(cut - 1, 0)
    return ordered[cut], ordered[n - 1 - cut]


def spread(values):
    return Spread(median(values), min(values), max(values), quantile(values, 0.25), quantile(values, 0.75), len(values),
                  *median_interval(values))


def round_ratio(a_first, b_first, b_second, a_second):
    """How many times longer A took than B in one round."""
    return (a_first + a_second) / (b_first + b_second)


def refusal(same_against_same, limit):
    """Why a ratio measured beside this A/A check must not be given; None when it may.

    `same_against_same` is the spread of the ratios of a server against another instance of itself. Its median must
    be known to lie within `limit` of 1: a single slow round does no harm, an uncertain middle does.
    """
    off = max(abs(same_against_same.sure_low - 1), abs(same_against_same.sure_high - 1))
    if off <= limit:
        return None
    return (f"the same server against itself: {same_against_same.sure_low:.3f} to {same_against_same.sure_high:.3f}, "
            f"limit {100 * limit:.0f} % around 1")
