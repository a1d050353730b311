"""Everything that was measured and stored, read back for rendering.

    RESULTS/*.json            one a model: bench/compare/run.py
    RESULTS/families/*.json   one a model of the production table: tools/bench_families.py
    RESULTS/families/causes.toml   why a row of that table is slower, written by hand
    RESULTS/misses.toml            why another target was missed, likewise
    RESULTS/replay/*.json     one a trace: tools/bench_replay.py
    EVIDENCE/families.json    the families and their titles: tools/evidence.py
"""
import glob
import json
import os
import tomllib
from dataclasses import dataclass, field


class BadResult(Exception):
    """A file that is not what its place says; the message names it."""


@dataclass
class Stored:
    runs: list = field(default_factory=list)        # result files of run.py
    families: list = field(default_factory=list)    # of run.py too
    replays: list = field(default_factory=list)     # {"command", "commit", "trace", "replay"}
    titles: list = field(default_factory=list)      # {"family", "title", "policy", "problem"}, each family once
    causes: list = field(default_factory=list)      # {"text", and where it holds: "family", "step", "prompt_tokens"}
    misses: list = field(default_factory=list)      # {"text", and where it holds: "title" (the scenario's), "model"}


def load(results, evidence):
    """Folders that are not there count as empty."""
    return Stored(runs=[_run(path) for path in _files(results)],
                  families=[_run(path) for path in _files(os.path.join(results, "families"))],
                  replays=[_replay(path) for path in _files(os.path.join(results, "replay"))],
                  titles=_titles(os.path.join(evidence, "families.json")),
                  causes=_causes(os.path.join(results, "families", "causes.toml"), {"family", "step", "prompt_tokens"}),
                  misses=_causes(os.path.join(results, "misses.toml"), {"title", "model"}))


def _files(folder):
    return sorted(glob.glob(os.path.join(glob.escape(folder), "*.json")))


def _json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise BadResult(f"{path}: {error}") from error


def _run(path):
    run = _json(path)
    wanted = ("model", "scenarios", "skippy", "llama_server", "machine", "started", "command", "complete")
    if not isinstance(run, dict) or run.get("format") != 1 or any(key not in run for key in wanted):
        raise BadResult(f"{path}: not a result of bench/compare/run.py")
    return run


def _replay(path):
    told = _json(path)
    replay = told.get("replay") if isinstance(told, dict) and told.get("format") == 1 else None
    if not isinstance(replay, dict) or replay.get("schema") != "skippy-replay":
        raise BadResult(f"{path}: not a result of tools/bench_replay.py")
    return told


def _titles(path):
    if not os.path.exists(path):
        return []
    rows = _json(path).get("rows", [])
    by_family = {}
    for row in rows:
        by_family.setdefault(row["family"], {key: row[key] for key in ("family", "title", "policy", "problem")})
    return list(by_family.values())


def _causes(path, places):
    try:
        with open(path, "rb") as file:
            causes = tomllib.load(file).get("cause", [])
    except FileNotFoundError:
        return []
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadResult(f"{path}: {error}") from error
    if not all(isinstance(cause, dict) and "text" in cause and set(cause) - {"text"} <= places for cause in causes):
        raise BadResult(f"{path}: each [[cause]] has text and may have {', '.join(sorted(places))}")
    return causes
