"""The production table: a row a family with the payload it is served with, from the scenario prefix_reuse.

A family with a real model is shown by that; the others by synthetic ones, which may be of another size for long
prefixes than for short ones. llama-server is the faster of its default and its best settings.
"""
from report import warm_answers
from report.cells import interval
from report.markdown import markdown_of
from report.prefix import ratio_cell, size
from report.provenance import provenance, provenance_of_all

POLICIES = ("resident_kv", "kv_recurrent")   # what is served; full_state is for certification alone
LENGTHS, GENERATED = (128, 4096), (1, 16)
SYNTHETIC = ("\\* random weights in the family's real layout: they show what a restore costs, not how fast a real "
             "model is. Of 128 tokens on the larger one (small, about 100 MB), of 4,096 on the smaller one (mini, about 10 MB): "
             "the lengths do not compare with each other.")


def families(stored):
    """[(the family's title row, its runs)], real models alone where there are some; not runs of another policy."""
    by_name = {}
    for run in stored.families:
        if run["model"].get("policy") in POLICIES:
            by_name.setdefault(run["model"].get("family"), []).append(run)
    titles = stored.titles or [{"family": name, "title": name, "policy": "", "problem": ""} for name in sorted(by_name)]
    return [(title, _real_alone(by_name.get(title["family"], []))) for title in titles]


def _real_alone(runs):
    return [run for run in runs if not run["model"]["synthetic"]] or runs


def cell(runs, length, generated, step):
    """(run, row) of a step with one client; None where it was not measured."""
    for run in runs:
        row = (run["scenarios"].get("prefix_reuse", {}).get("rows") or {}).get(f"{length}/{generated}/1/{step}")
        if row and "against" in row:
            return run, row
    return None


def _unfit(runs, length, generated):
    """Why a prompt of this length was not measured, where that is known."""
    rows = [(run["scenarios"].get("prefix_reuse", {}).get("rows") or {}).get(f"{length}/{generated}/1/repeat") for run in runs]
    return "longer than its context" if any(row and row["verdict"] == "does not fit" for row in rows) else ""


def cold_cell(runs, length):
    """Cold prompts were sent with the most generated tokens, whatever that was."""
    found = [cell(runs, length, generated, "cold") for generated in (128, *reversed(GENERATED))]
    return next((one for one in found if one), None)


def fastest(row, clock):
    """(label, timed) of the llama-server that took least."""
    timed = [(label, clocks[clock]) for label, clocks in row["against"].items()]
    return min(timed, key=lambda pair: pair[1]["a"]["median"])


def is_slower(timed):
    return timed["sure"][1] < 1


def compact_table(stored):
    """For the README: how much faster an exact repeat is, and what it takes."""
    head = ["family", "model", "payload"] + [f"{length:,} tokens, {generated} generated"
                                             for length in LENGTHS for generated in GENERATED]
    head += [warm_answers.TITLE]
    rows = [_start(title, runs) + [_compact(cell(runs, length, generated, "repeat")) or _unfit(runs, length, generated)
                                   for length in LENGTHS for generated in GENERATED]
            + [warm_answers.cells(runs)] for title, runs in families(stored)]
    return ("An exact repeat of a prompt after another conversation, times faster than llama-server (milliseconds at "
            "the client, llama-server to skippy)", head, rows, [])


def _start(title, runs):
    if not runs:
        reason = f"not served from a cache: {title['problem']}" if title["policy"] == "off" else ""
        return [title["title"], "none" if reason else "not measured", reason or title["policy"]]
    models = [run["model"] for run in runs]
    names = dict.fromkeys(model["file"].removesuffix(".gguf") + " \\*" * model["synthetic"] for model in models)
    return [title["title"], ", ".join(names), runs[0]["model"]["policy"]]


def _compact(found):
    if not found:
        return ""
    _, timed = fastest(found[1], "total")
    times = f"({timed['a']['median']:.1f} to {timed['b']['median']:.1f})"
    low, high = timed["sure"]
    if timed["refused"] or low <= 1 <= high:
        return f"undecided {times}"
    ratio = timed["ratio"]["median"]
    return f"{ratio:.{1 if ratio >= 2 else 2}f}x {times}{', slower' * is_slower(timed)}"


HEAD = ["family", "model", "payload", "cold, first token: llama-server / skippy, ms", "cold, times faster",
        "warm, 1 token: llama-server / skippy, ms", "times faster", "warm, 16 tokens: llama-server / skippy, ms",
        "times faster", "extended, first token, times faster", "cache bytes of the prefix: llama-server / skippy",
        "gates not met"]


def full_table(stored, length):
    rows = [_start(title, runs) + _full(runs, length) for title, runs in families(stored)]
    return f"{length:,}-token prefix", HEAD, rows, []


def _full(runs, length):
    cells = _pair(cold_cell(runs, length), "first")
    for generated in GENERATED:
        cells += _pair(cell(runs, length, generated, "repeat"), "total")
    if not any(cells):
        cells[0] = _unfit(runs, length, GENERATED[0]) or ("not measured" if runs else "")
    cells += _pair(cell(runs, length, GENERATED[0], "extend"), "first")[1:]
    return cells + [_bytes(runs, length), _not_met(runs, length)]


def _pair(found, clock):
    if not found:
        return ["", ""]
    label, timed = fastest(found[1], clock)
    cpu = found[1]["against"][label].get("cpu")
    if timed["refused"] and cpu and not cpu["refused"]:   # of a cold prompt, which only computes
        ratio = f"{ratio_cell(cpu)} by CPU time"
    else:
        ratio = ratio_cell(timed)
    return [f"{timed['a']['median']:.1f} / {timed['b']['median']:.1f}", ratio]


def _bytes(runs, length):
    for run in runs:
        told = (run["scenarios"].get("prefix_reuse", {}).get("cells") or {}).get(f"{length}/1")
        if told:
            return " / ".join(f"{size(told['cache_bytes'][label]['bytes'])} ({told['cache_bytes'][label]['source']})"
                              for label in ("llama-server", "skippy"))
    return ""


def _not_met(runs, length):
    rows = _rows(runs, length)
    if not rows:
        return ""
    words = [f"{row['step']}/{row['generated']} {row['verdict']}" for _, row in rows
             if not row["verdict"].startswith("met")]
    return ", ".join(words) or "none"


def _rows(runs, length):
    found = [cell(runs, length, generated, step) for generated in GENERATED for step in ("repeat", "extend")]
    return [one for one in (cold_cell(runs, length), *found) if one]


def _all_rows(stored):
    """(the family's title row, run, row) of all that the full tables show."""
    for title, runs in families(stored):
        for length in LENGTHS:
            for run, row in _rows(runs, length):
                yield title, run, row


def slower_lines(stored):
    """Where skippy is slower beyond doubt, or missed a gate, and why, as far as `causes` knows."""
    for title, run, row in _all_rows(stored):
        if row["verdict"].startswith("MISSED"):
            yield (f"- **{title['title']}, {run['model']['file']}: {row['title']}**, gate missed: "
                   f"{', '.join(row['why'])}. Cause: {cause(stored, title, row)}")
        for clock in ("first", "total"):
            label, timed = fastest(row, clock)
            if is_slower(timed):
                yield (f"- **{title['title']}, {run['model']['file']}: {row['title']}, {CLOCKS[clock]}: "
                       f"{interval(timed['ratio'])}** against {label}; evaluated {row['evaluated'][label]:g} "
                       f"tokens, skippy {row['evaluated']['skippy']:g}. Cause: {cause(stored, title, row)}")


CLOCKS = {"first": "first token", "total": "all tokens"}


def cause(stored, title, row):
    """Of the first entry that holds for the row."""
    here = {"family": title["family"], "step": row["step"], "prompt_tokens": row["prompt_tokens"]}
    return next((told["text"] for told in stored.causes
                 if all(told[key] == here[key] for key in here if key in told)), "not examined yet.")


def page(stored):
    """docs/evidence/production.md"""
    slower = list(slower_lines(stored))
    tables = [markdown_of(*full_table(stored, length)) for length in LENGTHS]
    measured = [provenance(run) for run in stored.families] or ["Not measured yet."]
    return "\n\n".join(["# The production table", INTRODUCTION, *tables, SYNTHETIC, "## Slower than llama-server, or a gate missed",
                        "\n".join(slower) or "Nowhere beyond doubt.", "## How it was measured", *measured]) + "\n"


INTRODUCTION = """\
Made by `make bench-families` (`tools/bench_families.py`), rendered by `make results`. A row a family, served with the
payload that it has in production. Cold: sent for the first time. Warm: the very same prompt again, after another
conversation took the lane. Extended: the same prefix with another 16-token ending. Times at the client, of one
conversation; times faster with the interval of the median (95 %, of three rounds its whole range); refused where
llama-server differs too much from another instance of itself to say which is faster. llama-server is the faster of its
default and its best settings. A cache's bytes are measured where the server tells them, else derived from the family's
formulas. The gates: an exact repeat of 128 tokens with one generated token five times faster, no other first
token later than llama-server's (3 % for noise), no more tokens evaluated."""


def headline(stored):
    """For the README; empty when no family was measured."""
    if not stored.families:
        return ""
    slower = len(list(slower_lines(stored)))
    gates = [row["verdict"].split()[0] for _, _, row in _all_rows(stored)]
    words = (f"Of {len(gates)} gates of the full table (an exact repeat of 128 tokens five times faster, no other first "
             f"token later) {gates.count('met')} are met, {gates.count('undecided')} undecided, {gates.count('MISSED')} missed; "
             f"{slower or 'no'} {'line says' if slower == 1 else 'lines say'} where it is slower or missed, and why")
    shown = [run for _, runs in families(stored) for run in runs]
    return "\n\n".join([markdown_of(*compact_table(stored)), SYNTHETIC, *filter(None, [warm_answers.sentence(shown)]),
                        f"{words}: [docs/evidence/production.md](docs/evidence/production.md). `make bench-families`; "
                        f"{provenance_of_all(stored.families)}."])
