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


def widened(ratio, same_against_same):
    """The interval of a ratio's median, stretched on both sides by the factor by which the same server differed
    from itself: (low, high)."""
    error = max(same_against_same.sure_high, 1 / same_against_same.sure_low)
    return ratio.sure_low / error, ratio.sure_high * error


def refusal_of_ratio(ratio, same_against_same, limit):
    """Why a ratio that may be far from 1 must not be given; None when it may.

    1.02 is worth nothing when the same server differs from itself by 20 %, but 40 is: it may be 32 or 48. So a ratio
    is given when the A/A check holds `limit`, as refusal() has it, or when the widened interval leaves no doubt which
    of the two is faster.
    """
    reason = refusal(same_against_same, limit)
    low, high = widened(ratio, same_against_same)
    if reason is None or low > 1 or high < 1:
        return None
    return f"{reason}, and the ratio may be {low:.2f} to {high:.2f}"


def verdict(ratio, same_against_same, limit, target):
    """Whether the ratio reaches `target`: "met", "MISSED" or "undecided".

    The widened interval decides when it lies wholly above or below the target. Otherwise the median does, but only
    when the A/A check holds `limit`; else it is undecided.
    """
    low, high = widened(ratio, same_against_same)
    if low >= target:
        return "met"
    if high < target:
        return "MISSED"
    if refusal(same_against_same, limit):
        return "undecided"
    return "met" if ratio.median >= target else "MISSED"
