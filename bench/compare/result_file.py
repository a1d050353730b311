"""The stored result of a run: written whole or not at all, read back, and carried on.

A scenario's result tells the `conditions` it was measured under: a digest of the model, both binaries and the settings.
"""
import hashlib
import json
import os

HOME = os.path.expanduser("~")
LINE = 140   # a list or object without further ones inside stands on one line up to here


class CannotGoOn(Exception):
    """What is in the file forbids it."""


def store(path, results):
    """A reader never sees half a file."""
    if path:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path + ".part", "w", encoding="utf-8") as file:
            # Home folders say nothing about a measurement.
            file.write(as_text(results).replace(HOME, "~") + "\n")
        os.replace(path + ".part", path)


def as_text(value, depth=0):
    """JSON, indented, but with short flat lists and objects on one line."""
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
    flat = json.dumps(value)
    if not inside or (len(flat) <= LINE and not any(isinstance(item, (dict, list, tuple)) for item in inside)):
        return flat
    if isinstance(value, dict):
        parts = [f"{json.dumps(str(key))}: {as_text(item, depth + 1)}" for key, item in value.items()]
    else:
        parts = [as_text(item, depth + 1) for item in value]
    indent = "\n" + " " * (depth + 1)
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}{indent}{(',' + indent).join(parts)}{indent[:-1]}{right}"


def load(path):
    """The stored result, or None when there is no such file. Raises CannotGoOn for a file that is none."""
    try:
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
        if results.get("format") != 1:
            raise ValueError("not a result of bench/compare/run.py")
        return results
    except (TypeError, FileNotFoundError):
        return None
    except (OSError, ValueError, AttributeError) as error:
        raise CannotGoOn(f"--json {path}: {error}") from error


def conditions_of(results):
    told = {"model": results["model"]["sha256"], "binaries": results["binaries"], "settings": results["settings"]}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def carry_on(path, results, chosen, add, resume, overwrite):
    """Takes over what the file at `path` has, and returns the names of `chosen` that need not be run again: with
    `resume` those that were done under the same conditions, else none. Raises CannotGoOn when nobody said what to do
    with a file that exists, or when its scenarios cannot stand beside ours.
    """
    before = load(path) if not overwrite else None
    if before is None:
        return []
    if not add and not resume:
        state = "complete" if before.get("complete") else "that of an interrupted run"
        raise CannotGoOn(f"--json {path}: there is a result ({state}). --resume runs what it lacks, --add runs the "
                         "chosen scenarios and keeps the others, --overwrite starts anew")
    for key, what in (("sha256", "of another model"), ("synthetic", "marked otherwise (--synthetic)")):
        if before["model"][key] != results["model"][key]:
            raise CannotGoOn(f"--json {path}: it is {what}")
    conditions, done = conditions_of(results), []
    for name, scenario in before["scenarios"].items():   # what is run again is replaced only then
        results["scenarios"][name] = {"commit": before["skippy"]["commit"], **scenario}
        if resume and name in chosen and scenario["status"] == "done" and scenario.get("conditions") == conditions:
            done.append(name)
    return done
