"""skippy bench compare: its short form, and what it says when something is missing, other, lost or interrupted."""
import importlib
import json
import os
import signal
import stat
import subprocess
import sys
from types import SimpleNamespace

import pytest

import models
from process import REPOSITORY, binary, poll

sys.path.append(str(REPOSITORY / "bench" / "compare"))
completeness, contestants, duel, run, scenarios = (
    importlib.import_module(name) for name in ("completeness", "contestants", "duel", "run", "scenarios"))

REFERENCE = os.environ.get("SKIPPY_REFERENCE_SERVER") or str(REPOSITORY / "build" / "llama-server")


def arguments(*more, model=models.LLAMA_TINY.path, reference=REFERENCE):
    return ["--model", str(model), "--llama-server", str(reference), "--threads", "1", "--synthetic", *map(str, more)]


def compare(*more, **which):
    done = subprocess.run([binary(), "bench", "compare", *arguments(*more, **which)], capture_output=True, text=True,
                          errors="replace", timeout=900, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def pretender(path, serving):
    """Tells the reference server's version, and does `serving` when asked to serve."""
    return script(path, f'[ "$1" = --version ] && exec "{REFERENCE}" --version\n{serving}\n')


def a_bench(path, *more):
    """(results, bench) of this process, stored at `path`."""
    flags = arguments("--short", "--scenario", "exact_repeat", "--json", path, *more)
    parsed = run.parse(["--skippy", binary(), *flags], None)
    results, bench, _ = run.prepare(parsed, lambda results: run.result_file.store(str(path), results))
    return results, bench


@pytest.mark.parametrize("model", [models.LLAMA_TINY, models.FALCON_H1], ids=lambda model: model.name)
def test_the_short_form_has_every_cell_and_the_right_answers(model, tmp_path):
    path = tmp_path / "short.json"
    code, table, err = compare("--short", "--json", path, model=model.path)
    assert code == 0, f"exit code {code}\n{err[-4000:]}\n{table[-4000:]}"
    results = json.loads(path.read_text())
    assert results["complete"] and results["same_build"]
    assert {"parity", "restart", "memory_pressure", "long_edit"} <= set(results["scenarios"])
    assert completeness.complaints(results) == []
    restarted = results["scenarios"]["restart"]
    assert "on disk" in restarted["note"] and "gate" not in restarted
    del results["scenarios"]["rewind"]["contestants"]["llama-server"]["rounds"][0]["cache_bytes"]["host"]["bytes"]
    results["scenarios"]["parity"]["gate"]["why_not"] = ["parts at 3"]
    assert completeness.complaints(results) == ["no cell rewind.llama-server.rounds[0].cache_bytes.host.bytes",
                                                "parity: parts at 3"]


def test_a_complaint_of_the_short_form_is_told_and_fails(tmp_path, capsys):
    results, bench = a_bench(tmp_path / "r.json")
    assert run.run_all(results, bench, [scenarios.load("exact_repeat")])
    assert run.conclude(SimpleNamespace(short=True), results, True) == 0
    results["scenarios"]["exact_repeat"]["contestants"]["skippy"]["rounds"][0]["memory"]["peak"] = None
    capsys.readouterr()
    assert run.conclude(SimpleNamespace(short=True), results, True) == 1
    assert "no cell exact_repeat.skippy.rounds[0].memory.peak" in capsys.readouterr().err


def test_another_build_of_llama_server_is_refused_unless_allowed(tmp_path):
    other = script(tmp_path / "llama-server",
                   f'[ "$1" = --version ] && echo "version: 1234 (0123abc)" && exit 0\nexec "{REFERENCE}" "$@"\n')
    path = tmp_path / "r.json"
    wanted = ("--scenario", "exact_repeat", "--rounds", 1, "--json", path)
    code, _, err = compare(*wanted, reference=other)
    assert code == 2 and "not of the same llama.cpp build" in err and "0123abc" in err, err
    assert "--allow-other-build" in err
    assert not path.exists()
    code, _, err = compare(*wanted, "--allow-other-build", reference=other)
    assert code == 0, err
    assert json.loads(path.read_text())["same_build"] is False


def test_a_missing_server_and_a_model_that_does_not_load_are_told(tmp_path):
    path = tmp_path / "r.json"
    code, _, err = compare("--json", path, reference=tmp_path / "llama-server")
    assert code == 2 and "--llama-server: no such file" in err, err
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    code, _, err = compare("--json", path, model=broken)
    assert code == 2 and "broken.gguf" in err, err
    unable = pretender(tmp_path / "unable", "echo cannot load this model; exit 1")
    code, _, err = compare("--json", path, reference=unable)
    assert code == 2 and "llama-server ended with code 1 while starting" in err and "cannot load this model" in err, err
    assert not path.exists()


def killed_after(requests, kind):
    """A token scenario whose server of this kind is killed after so many of its requests."""
    def play(ledger, text):
        for number in range(6):
            if number == requests and ledger.server.contestant.kind == kind:
                os.kill(ledger.server.pid, signal.SIGKILL)
            ledger.chat([{"role": "user", "content": text.question()}])
    return SimpleNamespace(NAME="killed", GROUP="tokens", TITLE="killed", LANES=1, ROUNDS=1, play=play)


@pytest.mark.parametrize("kind, answered", [("skippy", 3), ("llama-server", 2)])
def test_a_server_that_dies_in_a_token_scenario_leaves_what_it_answered(kind, answered, tmp_path):
    path = tmp_path / "r.json"
    results, bench = a_bench(path)
    assert run.run_all(results, bench, [killed_after(answered, kind), scenarios.load("exact_repeat")])
    stored = json.loads(path.read_text())["scenarios"]
    assert stored["killed"]["status"] == "failed" and "died with code -9" in stored["killed"]["error"]
    partial, = stored["killed"]["partial"]
    assert partial["contestant"] == kind and partial["requests"] == answered
    assert [bool(entry.get("total_ms")) for entry in partial["entries"]] == [True] * answered
    whole = stored["killed"]["contestants"]
    assert list(whole) == (["skippy"] if kind == "llama-server" else [])
    assert stored["exact_repeat"]["status"] == "done"
    assert run.conclude(SimpleNamespace(short=False), results, True) == 2
    assert "died with code -9" in run.report.as_terminal([results])


def test_a_server_that_dies_in_a_duel_fails_that_scenario_alone(tmp_path):
    results, bench = a_bench(tmp_path / "r.json")
    asked = []

    def timed(bench, result):
        with duel.Duel(bench.baseline, bench.ours, bench.settings_for(lanes=1)) as servers:
            def sample(server, _key):
                asked.append(server)
                if len(asked) == 6:
                    os.kill(server.pid, signal.SIGKILL)
                return server.round_trip_ms()
            servers.time(sample, 4, 0.1)

    module = SimpleNamespace(NAME="duel", GROUP="speed", TITLE="duel", run=timed)
    assert run.run_all(results, bench, [module, scenarios.load("exact_repeat")])
    assert results["scenarios"]["duel"]["status"] == "failed"
    assert "died with code -9" in results["scenarios"]["duel"]["error"]
    assert results["scenarios"]["exact_repeat"]["status"] == "done"


def test_a_cold_server_that_dies_leaves_what_was_counted(tmp_path):
    results, bench = a_bench(tmp_path / "r.json")
    dies = script(tmp_path / "skippy", "exit 3")
    bench.ours_without_cache = contestants.Contestant("skippy, cold", "skippy", str(dies))
    assert run.run_all(results, bench, [scenarios.load("exact_repeat")])
    told = results["scenarios"]["exact_repeat"]
    assert told["status"] == "failed" and "code 3" in told["error"]
    assert {label: len(row["rounds"]) for label, row in told["contestants"].items()} == dict.fromkeys(
        completeness.LABELS, 1)


def test_an_interrupted_run_keeps_what_it_had_and_is_resumed(tmp_path):
    path = tmp_path / "r.json"
    wanted = ("--short", "--scenario", "exact_repeat", "--scenario", "agent_loop", "--json", path)
    started = subprocess.Popen([binary(), "bench", "compare", *arguments(*wanted)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def so_far():
        return json.loads(path.read_text())["scenarios"] if path.exists() else {}

    poll("the second scenario has begun", lambda: "agent_loop" in so_far(), 300)
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 2 and "--resume" in err, err
    interrupted = json.loads(path.read_text())
    first = interrupted["scenarios"]["exact_repeat"]
    assert not interrupted["complete"] and first["status"] == "done"
    assert interrupted["scenarios"]["agent_loop"]["status"] == "partial"

    code, _, err = compare(*wanted)
    assert code == 2 and "interrupted" in err and "--resume" in err and "--overwrite" in err, err
    assert json.loads(path.read_text()) == interrupted
    code, _, err = compare(*wanted, "--resume")
    assert code == 0, err
    resumed = json.loads(path.read_text())
    assert resumed["complete"] and resumed["scenarios"]["exact_repeat"] == first
    assert resumed["scenarios"]["agent_loop"]["status"] == "done"
