#!/usr/bin/env python3
"""Cuts a model of every family into stages, certifies stages of a deep one, and writes docs/evidence/stages.md.

    tools/stage_evidence.py [--skippy build/skippy] [--fixtures build/fixtures] [--models FOLDER] [--out docs/evidence]
                            [--only families|wires|gates|wide] [--scratch FOLDER]

Every family's fixture, and its real model where there is one, is cut in three; the stages one behind the other must give
the whole model's logits, bit by bit, and each alone what its layers give in the model. The gates are stages of
DeepSeek-V3's layout with all its 61 layers and random weights (made for it, about 1 GB). One of its layers with experts in
true widths (12 GB, and as much for the stage cut from it, in --scratch) shows what a layer's state costs. What the wires
between stages lose is measured on real models. --only writes one section anew and leaves the rest of the file as it is.
Exits 1 when stages are not equal, a stage is not certified, a gate is missed or the exact wire is not exact.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "compare"))
import machine  # noqa: E402

STAGES = 3
WIRE_MODELS = ("smollm2-135m-instruct-q4_1.gguf", "gemma-3-270m-q4_k_m.gguf")
WIRE_TOKENS = 192
DEEP = ("deepseek3", "small", 61)
# Layers of a gate's stage, what it is fed with, and how many times faster a restore must be than computing.
GATES = (((0, 1), "tokens", 5.18), ((3, 4), "upstream", 3.76), ((30, 31), "synthetic", 4.51), ((60, 61), "synthetic", 2.03))


def run(command, good=(0, 1)):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace")
    if done.returncode not in good:
        raise SystemExit(f"error: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done


def cut(skippy, model, folder):
    """One table row's last cells: equal or the reason, what was added, how input and output go."""
    command = [skippy, "stage", "split", "--model", model, "--out", folder, "--auto", STAGES, "--json"]
    done = run(command, good=(0, 1, 2))
    alone = json.loads(run([*command, "--check-alone"]).stdout)["check"] if done.returncode != 2 else None
    if done.returncode == 2:
        reason = done.stderr.strip().split(": ", 2)[-1]
        return {"equal": None, "reason": reason.split("into stages: ")[-1]}
    told = json.loads(done.stdout)
    stages = [package["manifest"] for package in told["packages"][1:]]
    ways = {stage["input"].get("node", "embeddings") for stage in stages[1:]}
    added = {text for stage in stages for text in stage["added"] if "vocabulary" not in text}
    return {"equal": told["check"]["passed"] and alone["passed"], "rows": told["check"]["rows"],
            "rows_alone": alone["rows"], "input": sorted(ways),
            "added": sorted(added), "layers": [stage["layers"] for stage in stages]}


def families(arguments):
    told = json.loads(run([arguments.skippy, "families", "--json"]).stdout)["families"]
    for family in told:
        basis = family["certificate"]
        models = [(basis["model"], arguments.models)] if basis["model"] else []
        models += [(f"{name}-tiny.gguf", arguments.fixtures) for name in basis["fixtures"]]
        for name, folder in models:
            print(f"{family['name']}: {name}", file=sys.stderr)
            with tempfile.TemporaryDirectory() as out:
                yield {"title": family["title"], "model": name, "real": folder == arguments.models,
                       **cut(arguments.skippy, os.path.join(folder, name), os.path.join(out, "packages"))}
        if not models:
            yield {"title": family["title"], "model": "none", "real": False, "equal": None,
                   "reason": f"not examined, since stages need a state that can be kept: {family['reason']}"}


def gates(arguments, folder):
    family, size, layers = DEEP
    run([arguments.skippy, "fixtures", "--family", family, "--size", size, "--layers", layers, "--out", folder], good=(0,))
    model = os.path.join(folder, f"{family}-{layers}-{size}.gguf")
    out = os.path.join(folder, "packages")
    for ranges in ("0..1,1..3,3..4", "30..31", "60..61"):
        run([arguments.skippy, "stage", "split", "--model", model, "--out", out, "--layers", ranges, "--no-check"], good=(0,))
    for (begin, end), source, least in GATES:
        print(f"stage {begin}..{end} of {family} with {layers} layers", file=sys.stderr)
        command = [arguments.skippy, "stage", "certify", "--package", f"{out}/stage-{begin}..{end}", "--q8-wire",
                   "--limit-memory", os.path.getsize(model) * 4 // 5, "--json", f"{folder}/certificate.json"]
        if source != "synthetic":
            command += ["--vocabulary", f"{out}/vocabulary"]
        if source == "upstream":
            command += ["--upstream", f"{out}/stage-0..1", "--upstream", f"{out}/stage-1..3"]
        run(command)
        with open(f"{folder}/certificate.json", encoding="utf-8") as file:
            yield {"least": least, "model_bytes": os.path.getsize(model), **json.load(file)}


def wires(arguments):
    for model in WIRE_MODELS:
        print(f"wires: {model}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "packages")
            run([arguments.skippy, "stage", "split", "--model", os.path.join(arguments.models, model), "--out", out,
                 "--auto", STAGES, "--no-check"], good=(0,))
            told = run([arguments.skippy, "stage", "wires", "--packages", out, "--tokens", WIRE_TOKENS, "--json", "-"])
            yield json.loads(told.stdout)


def family_table(rows):
    lines = ["| family | model | stages equal the whole | input of later stages | added |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        model = row["model"] + ("" if row["real"] or row["model"] == "none" else " \\*")
        if row["equal"] is None:
            lines.append(f"| {row['title']} | {model} | cannot be cut: {row['reason']} |  |  |")
            continue
        word = f"bit by bit, {row['rows']} rows of logits; alone {row['rows_alone']} rows" if row["equal"] else "NO"
        lines.append(f"| {row['title']} | {model} | {word} | {', '.join(row['input'])} | {'; '.join(row['added']) or 'nothing'} |")
    return "\n".join(lines)


def gate_table(certificates):
    lines = ["| stage | input | certified | computed, ms | restored, ms | times faster | gate | state | int8 wire |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for told in certificates:
        ratios = [a / b for a, b in zip(told["recompute_ms"], told["restore_ms"])]
        begin, end = told["package"]["layers"]
        wire = next(lane["detail"] for lane in told["lanes"] if lane["name"] == "q8_wire_validation")
        lines.append(
            f"| {begin}..{end} | {told['input']['kind']} | {'yes' if told['passed'] else 'NO'} | "
            f"{statistics.median(told['recompute_ms']):.1f} | {statistics.median(told['restore_ms']):.2f} | "
            f"{told['times_faster']:.1f} ({min(ratios):.1f} to {max(ratios):.1f}) | at least {told['least']}: "
            f"{'met' if told['times_faster'] >= told['least'] else 'MISSED'} | {told['state_bytes'] / 1024:.0f} KiB | {wire} |")
    return "\n".join(lines)


def wire_table(measured):
    lines = ["| model | stages | wire | bytes a row | NMSE of the logits | same most likely token | KL divergence, nats |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for told in measured:
        stages = ", ".join(f"{begin}..{end}" for begin, end in told["stages"])
        for row in told["wires"]:
            start = f"| {told['model']['name']} | {stages} | {row['wire']} | {row['row_bytes']} | "
            if "refused" in row:
                lines.append(f"{start}refused: {row['refused']} |  |  |")
                continue
            error = "0, bit by bit" if row["exact"] else f"{row['nmse']:.3g}"
            lines.append(f"{start}{error} | {row['same_token']} of {told['positions']} | {row['kl_nats']:.3g} |")
    return "\n".join(lines)


def wire_section(measured):
    told = machine.describe_machine()
    texts = "\n".join(f"- {each['model']['name']}: {each['text']}" for each in measured)
    return f"""## Wires
What `--stage-wire` does to the logits of a whole model, and what any other rounding does: all rows that enter a stage (the first
one's too) over the wire, against the same run without one; *one ulp* is the noise floor, each value of these rows one unit in the
last place larger: an error near it cannot be told from rounding. {measured[0]['tokens']} tokens, those before the last {measured[0]['positions']} in chunks of 64; compared
are the logits of the last {measured[0]['positions']}, one by one, one thread. Where a wire refuses a value, so does the server. Texts:

{texts}

```sh
skippy stage split --model MODEL --out DIR --auto {STAGES}
skippy stage wires --packages DIR --tokens {WIRE_TOKENS}
```

{wire_table(measured)}

Measured with skippy {machine.commit_of(ROOT)[:10]}, {told['cpu']}, {time.strftime("%Y-%m-%d", time.gmtime())}.

"""


def write_section(path, section):
    """In place of the one with the same heading, or behind all others."""
    with open(path, encoding="utf-8") as file:
        text = file.read().rstrip("\n") + "\n\n"
    heading = section.split("\n", 1)[0]
    text, found = re.subn(rf"^{re.escape(heading)}\n.*?(?=^## |\Z)", lambda _: section, text, count=1, flags=re.M | re.S)
    with open(path, "w", encoding="utf-8") as file:
        file.write((text if found else text + section).rstrip("\n") + "\n")


def where_and_when():
    told = machine.describe_machine()
    return f"skippy {machine.commit_of(ROOT)[:10]}, {told['cpu']}, {told['cores']} cores, {time.strftime('%Y-%m-%d', time.gmtime())}"


def wide(arguments):
    """One layer in true widths: what it is, its state in both forms, and its certificate."""
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        print("a layer with experts in DeepSeek-V3's widths", file=sys.stderr)
        run([arguments.skippy, "fixtures", "--family", "deepseek3", "--size", "wide", "--out", folder], good=(0,))
        model = os.path.join(folder, "deepseek3-wide.gguf")
        told = json.loads(run([arguments.skippy, "families", "--model", model, "--no-measure", "--json"]).stdout)
        made = {"bytes": os.path.getsize(model), "mla": told["mla"]}
        split = run([arguments.skippy, "stage", "split", "--model", model, "--out", f"{folder}/packages", "--layers", "0..1",
                     "--no-check", "--json"], good=(0,))
        made["parameters"] = json.loads(split.stdout)["packages"][0]["manifest"]["model"]["parameters"]
        os.remove(model)
        run([arguments.skippy, "stage", "certify", "--package", f"{folder}/packages/stage-0..1", "--q8-wire", "--rounds", 5,
             "--json", f"{folder}/certificate.json"])
        with open(f"{folder}/certificate.json", encoding="utf-8") as file:
            return {**made, "certificate": json.load(file)}


def wide_section(made):
    told, mla = made["certificate"], made["mla"]
    ratios = [a / b for a, b in zip(told["recompute_ms"], told["restore_ms"])]
    latent, expanded = mla["latent_bytes_per_token"], mla["expanded_bytes_per_token"]
    prefix = told["prefix_tokens"]
    verdicts = ", ".join(f"{lane['name']} {lane['verdict']}" for lane in told["lanes"])
    return f"""## A layer of DeepSeek-V3 in its true widths
One layer with experts: 7,168 wide, 128 heads over a latent of 512 + 64, all 256 experts of 2,048 (8 of 4 groups of 8 used) and a
shared one; {made['parameters'] / 1e9:.1f} billion random weights in Q8_0, {made['bytes'] / 2**30:.1f} GiB, with the head of a small vocabulary. Fed with synthetic rows.

| | latent | expanded |
| --- | --- | --- |
| state of a token in this layer | {latent:,} bytes (held) | {expanded:,} bytes ({expanded / latent:.1f} times) |
| of a token in 61 such layers | {61 * latent:,} bytes | {61 * expanded:,} bytes |
| of a prefix of 4,096 tokens in 61 | {61 * 4096 * latent / 2**30:.2f} GiB | {61 * 4096 * expanded / 2**30:.1f} GiB |

Certified ({verdicts}). {prefix} tokens and one more, one thread, {len(ratios)} rounds in turns: computed in
{statistics.median(told['recompute_ms']):,.0f} ms; restored, {told['state_bytes'] / 1024:.0f} KiB of state and then the one more token, in {statistics.median(told['restore_ms']):.1f} ms: {told['times_faster']:.1f} times faster ({min(ratios):.1f} to
{max(ratios):.1f}).

```sh
skippy fixtures --family deepseek3 --size wide --out DIR
skippy stage split --model DIR/deepseek3-wide.gguf --out DIR/packages --layers 0..1 --no-check
skippy stage certify --package DIR/packages/stage-0..1 --q8-wire --rounds 5
```

{where_and_when()}.

"""


def gate_section(certificates):
    limit = certificates[0]["model_bytes"] * 4 // 5 / 2**20
    return f"""## Stages of DeepSeek-V3's layout
61 layers as in the published model (three dense ones, then experts in groups with a shared one, latent attention, YaRN), widths
scaled down, random weights: {certificates[0]['model_bytes'] / 2**20:.0f} MiB. Each stage alone, in a process that may have {limit:.0f} MiB of address space. 128 tokens
and one more, one thread: median and spread of {len(certificates[0]['restore_ms'])} rounds in turns. The int8 wire's error stands beside that of an
input changed by one unit in the last place.

{gate_table(certificates)}

{where_and_when()}.

"""


def family_section(rows):
    return f"""## Every family
Cut in three of nearly equal size; the stages one behind the other against the whole model: a prompt of 150 tokens, and
as many more as the model's window or indexer holds, in chunks of 64, then 16 greedy tokens, one thread. Alone: each stage against the model whose other layers have no weights, which is how
stages of a model that does not fit in memory are checked. Models marked \\* are synthetic: random weights in the family's real layout.

{family_table(rows)}

{where_and_when()}.

"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skippy", default=os.path.join(ROOT, "build", "skippy"))
    parser.add_argument("--fixtures", default=os.path.join(ROOT, "build", "fixtures"))
    parser.add_argument("--models", default=os.environ.get("SKIPPY_MODELS") or os.path.expanduser("~/.cache/skippy/models"))
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "evidence"))
    parser.add_argument("--scratch", help="folder with 26 GB of room for the wide layer; default the system's")
    parser.add_argument("--only", choices=tuple(SECTIONS), help="write this section anew, nothing else")
    arguments = parser.parse_args()
    path = os.path.join(arguments.out, "stages.md")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(INTRODUCTION)
    good = True
    for name in [arguments.only] if arguments.only else SECTIONS:
        told, passed = SECTIONS[name](arguments)
        write_section(path, told)
        good = good and passed
    return 0 if good else 1


INTRODUCTION = """# Evidence: models cut into stages

Made by `make stage-evidence` (`tools/stage_evidence.py`). [stages.md](../stages.md) says what a stage is.
"""


def families_told(arguments):
    rows = list(families(arguments))
    return family_section(rows), all(row["equal"] is not False for row in rows)


def wires_told(arguments):
    measured = list(wires(arguments))
    return wire_section(measured), all(told["passed"] for told in measured)


def gates_told(arguments):
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        certificates = list(gates(arguments, folder))
    return gate_section(certificates), all(told["passed"] and told["times_faster"] >= told["least"] for told in certificates)


def wide_told(arguments):
    made = wide(arguments)
    return wide_section(made), made["certificate"]["passed"]


# In the order in which they stand; each gives its text, and whether all in it is as it should be.
SECTIONS = {"families": families_told, "wires": wires_told, "gates": gates_told, "wide": wide_told}


if __name__ == "__main__":
    sys.exit(main())
