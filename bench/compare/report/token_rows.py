"""What the token scenarios measured beside tokens: a line a scenario and server. Results from before that have none."""
from report.cells import model_title, of_group
from stats import median

HEAD = ["scenario", "server", "first token, ms", "whole answer, ms", "decode, tokens/s", "cached, by tier",
        "cache, MiB", "process, MiB"]
NOTES = ["Times at the client: median, 95th and 99th percentile of the requests, medians over rounds; not interleaved, "
         "so no ratio is made of them. Cache: at the end of the script; host is memory beside the lanes (slots), whose "
         "own cells and checkpoints are derived from the tokens they hold. Process: resident at the end, and the most "
         "so far."]


def table(run):
    rows = [_line(scenario["title"], label, told["rounds"])
            for scenario in of_group(run, "tokens") for label, told in (scenario.get("contestants") or {}).items()
            if told["rounds"] and "cache_bytes" in told["rounds"][0]]
    return f"Times and memory of the token scenarios: {model_title(run)}", HEAD, rows, NOTES


def _line(title, label, rounds):
    last = rounds[-1]
    speeds = [r["decode_per_s"] for r in rounds if r["decode_per_s"] is not None]
    return [title, label, _times(rounds, "first_ms"), _times(rounds, "total_ms"),
            f"{median(speeds):.0f}" if speeds else "",
            ", ".join(f"{tier} {tokens}" for tier, tokens in last["cached_by_tier"].items() if tokens),
            ", ".join(f"{place} {_mib(told['bytes'])}{' (derived)' * (told['source'] == 'derived')}"
                      for place, told in last["cache_bytes"].items()),
            f"{_mib(last['memory']['resident'])}, most {_mib(last['memory']['peak'])}"]


def _times(rounds, key):
    return " / ".join(f"{median([r[key][p] for r in rounds]):.0f}" for p in ("p50", "p95", "p99"))


def _mib(count):
    return f"{count / 2**20:.1f}"
