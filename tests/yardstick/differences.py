"""differences.toml: what of llama.cpp's server tests is left out, and which tests our server fails, each with its reason."""
import dataclasses
import json
import re
import tomllib

KINDS = ("purpose", "model")
# Everything below this line is written by `run.py --reference`.
MARK = "# ---- Expects the hub's model: llama-server, given the model used here, fails with the same words ----\n"
MODEL_REASON = "expects the hub's model"


@dataclasses.dataclass
class Entry:
    pattern: str  # a test's id; `*` stands for anything
    kind: str
    reason: str
    says: str = ""  # kind model: how llama-server fails; ours must fail with the same words

    def covers(self, test):
        return re.fullmatch(".*".join(map(re.escape, self.pattern.split("*"))), test, re.DOTALL) is not None


def words(detail):
    """What a failure says, less what differs from run to run: addresses and times."""
    text = "\n".join(detail.splitlines()[:2])
    return re.sub(r"0x[0-9a-f]+|\d+\.\d+", "#", text)[:300]


def load(path):
    """({file: reason}, [Entry])"""
    with open(path, "rb") as f:
        data = tomllib.load(f)
    left_out = dict(data.get("left_out", {}))
    entries = [Entry(entry["test"], entry["kind"], entry["reason"], entry.get("says", ""))
               for entry in data.get("difference", [])]
    for entry in entries:
        if entry.kind not in KINDS:
            raise ValueError(f"{path}: {entry.pattern}: kind {entry.kind} is none of {', '.join(KINDS)}")
    return left_out, entries


def store_model_entries(path, says):
    """Replaces the part of the file that the reference run writes; `says`: {test: words}."""
    with open(path, encoding="utf-8") as f:
        head = f.read().split(MARK)[0]
    # JSON's strings are TOML's basic strings.
    parts = [f'\n[[difference]]\ntest = {json.dumps(test)}\nkind = "model"\nreason = "{MODEL_REASON}"\n'
             f"says = {json.dumps(says[test])}\n" for test in sorted(says)]
    with open(path, "w", encoding="utf-8") as f:
        f.write(head.rstrip("\n") + "\n\n" + MARK + "".join(parts))


def judge(outcomes, details, entries):
    """({unexpected failure: what it says}, stale complaints, {kind: [tests]}) of {test: outcome} and {test: detail}."""
    unexpected, stale, expected = {}, [], {kind: [] for kind in KINDS}
    used = set()
    for test, outcome in sorted(outcomes.items()):
        entry = next((entry for entry in entries if entry.covers(test)), None)
        if entry is not None:
            used.add(entry.pattern)
        if outcome == "failed":
            said = words(details[test])
            if entry is None:
                unexpected[test] = details[test]
            elif entry.kind == "model" and said != entry.says:
                unexpected[test] = f"ours:         {said}\nllama-server: {entry.says}"
            else:
                expected[entry.kind].append(test)
        elif outcome == "passed" and entry is not None:
            stale.append(f"{test} passes, but {entry.pattern!r} is listed: {entry.reason}")
    for entry in entries:
        if entry.pattern not in used:
            stale.append(f"{entry.pattern!r} is listed, but there is no such test")
    return unexpected, stale, expected
