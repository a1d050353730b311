"""Use cases: a line a kind and server in each run's table, a cell a kind in the README's."""
from labels import BEST, OURS
from report.cells import interval, model_title, of_group, ratio_cell, rows_of, status
from report.verdicts import NEAR_TIE, inexact, row_verdict, same_answers
from stats import median

HEAD = ["use case", "server", "tokens", "ideal", "evaluated", "of the ideal", "cached, by tier", "first token, ms",
        "all requests, s", "skippy takes", "cache, MiB", "answers as skippy", "gate"]
NOTES = [
    "Twelve requests a use case, one after the other, each answered with up to 16 tokens. First token: median, 95th "
    "and 99th percentile of the twelve (the last two are nearly the slowest request); medians over the rounds. Skippy "
    "takes: how many times less or more time for all twelve than that server, with the interval of the median over the "
    "rounds (95 % from six rounds on); alike: the interval, widened by how much a server differs from itself, holds 1; "
    "unsure: it does, and a server differs too much from itself to say more. Near ties: answers that part where the "
    f"runner-up was less than {NEAR_TIE} nats behind."]


def table(run):
    rows = [cells for scenario in of_group(run, "use") for _, row in rows_of(scenario)
            for cells in _lines(scenario, row)]
    return f"Use cases: {model_title(run)}", HEAD, rows, NOTES


def _lines(scenario, row):
    for label, told in row["contestants"].items():
        rounds = told["rounds"]
        first = rounds[0]
        answers = row.get("answers", {}).get(label)
        yield [row["title"], label, str(first["prompt_tokens"]), str(first["ideal"]), str(first["evaluated"]),
               ratio_cell([r["ratio"] for r in rounds]), _counts(first["cached_by_tier"]),
               " / ".join(f"{median([r['first_ms'][p] for r in rounds]):.0f}" for p in ("p50", "p95", "p99")),
               f"{median([r['seconds'] for r in rounds]):.2f}", _time(row.get("times", {}).get(label)),
               _bytes(first["cache_bytes"]), same_answers(answers) if answers else "",
               status(scenario, row_verdict(row)) if label == OURS else ""]


def cells(scenario):
    """For the README: evaluated of the ideal, ours / llama-server's at its best settings, and how our time compares."""
    for _, row in rows_of(scenario):
        told = row["contestants"]
        ratios = [ratio_cell([r["ratio"] for r in told[label]["rounds"]]) if label in told else "?"
                  for label in (OURS, BEST)]
        ratios[1] += " inexact" * inexact(row.get("answers", {}), BEST)
        times = row.get("times", {}).get(BEST)
        seconds = [median([r["seconds"] for r in told[label]["rounds"]]) for label in (OURS, BEST) if label in told]
        yield row["title"], status(scenario, ", ".join([" / ".join(ratios)] + ([_short_time(times, seconds)] if times else [])))


def _time(times):
    """Honest in both directions; no figure where the noise could turn it round."""
    if times is None:
        return ""
    if "ratio" not in times:
        return times["refused"]
    low, high = times["widened"]
    if low <= 1 <= high:
        return f"{'unsure' if times['refused'] else 'alike'}, {low:.2f} to {high:.2f}"
    word, ratio = _less_or_more(times["ratio"])
    return f"{interval(ratio)} times {word}"


def _short_time(times, seconds):
    told = "{:.0f} / {:.0f} s".format(*seconds)
    if "ratio" not in times:
        return f"{told} (one after the other, not compared)"
    if times["widened"][0] <= 1 <= times["widened"][1]:
        return f"{told} ({'undecided' if times['refused'] else 'alike'})"
    word, ratio = _less_or_more(times["ratio"])
    return f"{told} ({ratio['median']:.2f}x {word})"


def _less_or_more(ratio):
    if ratio["median"] >= 1:
        return "less", ratio
    turned = {"median": "median", "sure_low": "sure_high", "sure_high": "sure_low"}
    return "more", {key: 1 / ratio[other] for key, other in turned.items()}


def _counts(by_tier):
    return ", ".join(f"{tier} {tokens}" for tier, tokens in by_tier.items() if tokens)


def _bytes(places):
    return ", ".join(f"{name} {told['bytes'] / 2**20:.1f}{' (derived)' * (told['source'] == 'derived')}"
                     for name, told in places.items())
