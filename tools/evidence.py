#!/usr/bin/env python3
"""Certifies a model of every family and writes docs/evidence/families.md and families.json.

    tools/evidence.py [--skippy build/skippy] [--fixtures build/fixtures] [--family F ...] [--kind K] [--out docs/evidence]

One row a family and model: real models are marked real, random-weight ones synthetic, and a family without a model
says why. Each row is a full `skippy certify` (about twenty seconds for a tiny model, minutes for a real one). With
--family or --kind only those rows are made anew; the others stay as they are stored. Exits 1 when a row is not certified.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "compare"))
import machine  # noqa: E402

FLAGS = ["-c", "2048", "-ub", "64", "-t", "1"]
REAL_FLAGS = [*FLAGS, "--no-variations"]   # a real model takes minutes a setting
TIERS = {"hot": "hot", "copy": "sequence copy", "host": "host pages", "decoded": "decoded result"}
STRENGTH = ["bit", "token", "fail"]
AT = 1024   # tokens of the restore and recompute figures


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done


# Processes that ran or waited before the row was made, ours among them: with more than there are processors they wait,
# and times are worth nothing.
BUSY = (os.cpu_count() or 1) + 0.5


def certify(skippy, path, flags):
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "certificate.json")
        done = subprocess.run([skippy, "certify", "--model", path, *flags, "--json", target, "--out", folder],
                              capture_output=True, text=True)
        if done.returncode == 2:
            return None, done.stderr.strip().splitlines()[-1], load
        with open(target, encoding="utf-8") as file:
            return json.load(file), "", load


def word_of(rows):
    """The strongest word that holds for all of them; None where none applies."""
    words = [row["verdict"] for row in rows if row["verdict"] != "not_applicable" and not row["reference"]]
    return max(words, key=STRENGTH.index) if words else None


def summary(family, model, real, certificate, problem, load):
    row = {"family": family["name"], "title": family["title"], "model": model, "kind": "real" if real else "synthetic",
           "policy": family["policy"], "granularity": family["granularity"], "problem": problem,
           "load": round(load, 2)}
    if certificate is None:
        return row
    rows = certificate["rows"]
    costs = certificate["economics"] or {}
    row |= {"policy": certificate["memory"]["policy"], "memory": certificate["memory"],
            "verdicts": certificate["verdicts"],
            "tiers": {name: word_of([r for r in rows if r["tier"] == tier]) for name, tier in TIERS.items()},
            "rows": {v: sum(r["verdict"] == v for r in rows) for v in (*STRENGTH, "not_applicable")},
            "failed": [{k: r[k] for k in ("group", "tier", "scenario", "variation", "promise", "reason",
                                          "first_difference", "largest_difference", "smallest_margin")}
                       for r in rows if r["verdict"] == "fail"],
            "ties": [{k: r[k] for k in ("group", "tier", "scenario", "variation", "largest_difference", "smallest_margin")}
                     for r in rows if r["tie"]],
            "largest_difference": max((r["largest_difference"] or 0 for r in rows if not r["reference"]), default=0),
            "economics": costs, "identity": certificate["identity"]["digest"], "date": certificate["date"]}
    return row


def collect(arguments):
    families = json.loads(run_json([arguments.skippy, "families", "--json"]).stdout)["families"]
    rows = []
    for family in families:
        if arguments.family and family["name"] not in arguments.family:
            continue
        basis = family["certificate"]
        models = [(basis["model"], True)] if basis["model"] else []
        models += [(f"{name}-tiny.gguf", False) for name in basis["fixtures"]]
        if not models and arguments.kind in (None, "none"):
            rows.append({"family": family["name"], "title": family["title"], "model": "none", "kind": "none",
                         "policy": family["policy"], "granularity": family["granularity"],
                         "problem": family["reason"] or basis["note"]})
        for model, real in models:
            if arguments.kind not in (None, "real" if real else "synthetic"):
                continue
            print(f"{family['name']}: {model} ...", file=sys.stderr, flush=True)
            path = os.path.join(arguments.models if real else arguments.fixtures, model)
            rows.append(summary(family, model, real, *certify(arguments.skippy, path, REAL_FLAGS if real else FLAGS)))
            print(f"  {rows[-1].get('verdicts', rows[-1]['problem'])}", file=sys.stderr, flush=True)
    return rows


def size(count):
    return f"{count} B" if count < 10_000 else f"{count / 1024:.0f} KiB" if count < 10_000_000 else f"{count / 2**20:.0f} MiB"


def components(memory):
    parts = []
    if memory["kv_row_bytes"]:
        parts.append(f"KV {size(memory['kv_row_bytes'])} a token")
    if memory["window_row_bytes"]:
        parts.append(f"window {size(memory['window_row_bytes'])} x {memory['window_tokens']} tokens")
    if memory["snapshot_bytes"]:
        parts.append(f"snapshot {size(memory['snapshot_bytes'])}")
    return ", ".join(parts)


def latents(economics):
    expanded = economics.get("expanded_bytes_per_token")
    return f" (expanded: {size(expanded)} a token)" if expanded else ""


def costs(row):
    if row.get("load", BUSY) >= BUSY:
        return "not timed: the machine was busy"
    economics = row["economics"]
    point = next((p for p in economics.get("points", []) if p["tokens"] == AT), None)
    if point is None:
        return "context too small"
    ratio = point["recompute_ms"] / point["restore_ms"] if point["restore_ms"] else 0
    derived = "" if point["measured"] else ", derived"
    return f"{point['restore_ms']:.2f} against {point['recompute_ms']:.0f} ms ({ratio:.0f}x{derived})"


HEAD = ["family", "model", "payload policy", "components", "reuse at", "hot", "sequence copy", "host pages",
        "decoded result", "`--exactness bit`", "`token`", f"restore against recompute, {AT} tokens"]


def cells(row):
    model = f"{row['model']} ({row['kind']})" if row["kind"] != "none" else "none"
    start = [row["title"], model, row["policy"]]
    if "verdicts" not in row:
        return [*start, row["problem"] or "not certified", row["granularity"], *["none"] * 7]
    def word(verdict):
        return verdict or "does not apply"
    return [*start, components(row["memory"]) + latents(row["economics"]), row["granularity"],
            *(word(row["tiers"][tier]) for tier in TIERS), word(row["verdicts"]["bit"]),
            word(row["verdicts"]["token"]) + (f", {len(row['ties'])} ties" if row["ties"] else ""), costs(row)]


def markdown(stored):
    table = [HEAD, ["---"] * len(HEAD), *(cells(row) for row in stored["rows"])]
    assert all(cell for row in table for cell in row), "an empty cell"
    lines = ["# Evidence: every family, every tier", "",
             "Made by `make evidence` (`tools/evidence.py`); `families.json` has the figures behind it. Each row is a full",
             f"`skippy certify {' '.join(FLAGS)}`: what `bit` and `token` mean, and all that is tried, is in [certificate.md](../certificate.md).",
             "Real models are certified at this setting alone (`--no-variations`).",
             "Synthetic models have random weights in the family's real layout: they show that the state comes back, not how a",
             "real model of the family fares. A tier's word is the weakest of both settings; `token` reuses what was computed token by",
             "token, which rounds otherwise than a whole chunk does where a family's kernels are so made. Times are those of one thread on the machine below, and of a tiny model unless real.", "",
             *("| " + " | ".join(row) + " |" for row in table), ""]
    for row in stored["rows"]:
        for failed in row.get("failed", []):
            lines.append(f"- **{row['title']}, {row['model']}: {failed['group']} / {failed['tier']} / {failed['scenario']} "
                         f"{failed['variation']} ({failed['promise']})**: {failed['reason']}; first difference at "
                         f"{failed['first_difference']}, largest {failed['largest_difference']}.")
        for tie in row.get("ties", []):
            lines.append(f"- {row['title']}, {row['model']}: a tie flips in {tie['group']} / {tie['tier']} / {tie['scenario']} "
                         f"{tie['variation']} (largest difference {tie['largest_difference']:.3g}, smallest top-2 margin "
                         f"{tie['smallest_margin']:.3g}).")
    m = stored["machine"]
    lines += ["", f"skippy {stored['commit'][:10]}, {m['cpu']}, {m['cores']} cores, {stored['date']}."]
    return "\n".join(lines) + "\n"


def write(folder, stored):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "families.json"), "w", encoding="utf-8") as file:
        json.dump(stored, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, "families.md"), "w", encoding="utf-8") as file:
        file.write(markdown(stored))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skippy", default=os.path.join(ROOT, "build", "skippy"))
    parser.add_argument("--fixtures", default=os.path.join(ROOT, "build", "fixtures"))
    parser.add_argument("--models", default=os.environ.get("SKIPPY_MODELS") or os.path.expanduser("~/.cache/skippy/models"))
    parser.add_argument("--family", action="append")
    parser.add_argument("--kind", choices=["real", "synthetic", "none"])
    parser.add_argument("--render", action="store_true", help="only write the table of the stored rows anew")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "evidence"))
    arguments = parser.parse_args()
    path = os.path.join(arguments.out, "families.json")
    if arguments.render:
        with open(path, encoding="utf-8") as file:
            return write(arguments.out, json.load(file))
    rows = collect(arguments)
    if (arguments.family or arguments.kind) and os.path.exists(path):
        made = {(row["family"], row["model"]) for row in rows}
        with open(path, encoding="utf-8") as file:
            kept = [row for row in json.load(file)["rows"] if (row["family"], row["model"]) not in made]
        rows = sorted(kept + rows, key=lambda row: (row["family"], row["kind"], row["model"]))
    described = machine.describe_machine()
    stored = {"schema": "skippy-evidence", "version": 1, "commit": str(machine.commit_of(ROOT)),
              "date": time.strftime("%Y-%m-%d", time.gmtime()), "flags": FLAGS,
              "machine": {key: described[key] for key in ("cpu", "cores", "memory_mib")}, "rows": rows}
    write(arguments.out, stored)
    bad = [row["model"] for row in rows if "verdicts" in row and "fail" in row["verdicts"].values() or row["kind"] != "none" and row["problem"]]
    for model in bad:
        print(f"not certified: {model}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
