"""What the short form of the comparison is judged by: every promised cell is there, and the answers are right. Never by
speed, and not by how many tokens were evaluated."""
from labels import BEST, COLD, DEFAULT, OURS
from report.verdicts import wrong

MODEL = ("file", "sha256", "architecture", "family", "policy")
ROUND = ("requests", "prompt_tokens", "ideal", "evaluated", "ratio", "decode_per_s", "cached_by_tier",
         "first_ms.p50", "first_ms.p95", "first_ms.p99", "total_ms.p50", "total_ms.p95", "total_ms.p99",
         "cache_bytes.host.bytes", "cache_bytes.host.source", "cache_bytes.lanes.bytes", "cache_bytes.lanes.source",
         "memory.resident", "memory.peak", "seconds")
LABELS = (OURS, DEFAULT, BEST)


def complaints(results):
    """One line for each thing that is missing or wrong; empty when all is well."""
    found = [f"model.{path}" for path in absent(results["model"], MODEL)]
    found += [f"{path}" for path in absent(results, ("machine.cpu", "skippy.version", "llama_server.version"))]
    found = [f"no cell {cell}" for cell in found]
    for name, scenario in results["scenarios"].items():
        if scenario["status"] != "done":
            found.append(f"{name}: {scenario['status']}: {scenario.get('error', 'not run to its end')}")
        elif scenario["group"] == "tokens":
            found += judged(name, scenario)
        elif scenario["group"] == "use":
            found += [f"no cell {name}.rows"] * (not scenario.get("rows"))
            for kind, row in (scenario.get("rows") or {}).items():
                found += judged(f"{name}.{kind}", row)
        elif scenario["group"] == "parity":
            found += [f"no cell {name}.rows"] * (not scenario.get("rows"))
            found += [f"{name}: {reason}" for reason in scenario.get("gate", {}).get("why_not", [])]
    return found


def judged(name, scenario):
    """A token scenario, or a kind of use case, which has the same cells."""
    return [f"no cell {name}.{cell}" for cell in missing_cells(scenario)] + wrong_answers(name, scenario)


def missing_cells(scenario):
    """Paths of what a token scenario's rows lack, e.g. "llama-server.rounds[0].memory.peak"."""
    for label in LABELS:
        row = scenario["contestants"].get(label) or {}
        if not row.get("command"):
            yield f"{label}.command"
        rounds = row.get("rounds") or []
        if not rounds:
            yield f"{label}.rounds"
        for number, told in enumerate(rounds):
            yield from (f"{label}.rounds[{number}].{path}" for path in absent(told, ROUND))
    for label in (*LABELS[1:], COLD):
        if label not in scenario.get("answers", {}):
            yield f"answers.{label}"
    if "gate" not in scenario and "note" not in scenario:
        yield "gate"


def absent(told, paths):
    """The dotted paths at which `told` has nothing (0 is something, an empty object is not)."""
    for path in paths:
        value = told
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is None or value in ("", {}, []):
            yield path


def wrong_answers(name, scenario):
    """Answers that are not those of our own run without a cache, except where the runner-up was as near as a tie."""
    told = scenario.get("answers", {}).get(COLD, {"partings": [], "compared": 0})
    found = [f"{name}: an answer parts from the cold one at token {parting['position']}, gap {parting['gap']}"
             for parting in wrong(told)]
    return found if told["compared"] else [*found, f"{name}: no answer was compared with a cold one"]
