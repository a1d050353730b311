"""skippy stage: cutting a model into packages and certifying one of them, without the rest of it."""
import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import models
from process import binary, poll

FIXTURES = Path(os.environ.get("SKIPPY_FIXTURES") or Path(binary()).parent / "fixtures")


def run(*arguments, timeout=120, **options):
    done = subprocess.run([binary(), "stage", *map(str, arguments)], capture_output=True, text=True, errors="replace",
                          timeout=timeout, stdin=subprocess.DEVNULL, **options)
    return done.returncode, done.stdout, done.stderr


def refused(*arguments, says):
    code, out, err = run(*arguments)
    assert code == 2, f"exit code {code}\n{err[-2000:]}"
    assert says in err, err[-2000:]
    assert out == ""


def split(tmp_path, model, *arguments):
    code, out, err = run("split", "--model", model, "--out", tmp_path / "packages", *arguments)
    assert code == 0, err
    return out


def manifest(tmp_path, name):
    return json.loads((tmp_path / "packages" / name / "manifest.json").read_text())


def test_a_real_model_in_three_stages_is_checked_against_the_whole(tmp_path):
    out = split(tmp_path, models.SMOLLM2.path, "--auto", "3")
    assert "are the whole model's, bit by bit" in out
    stages = sorted(path.name for path in (tmp_path / "packages").iterdir())
    assert len(stages) == 4 and stages[-1] == "vocabulary"
    told = [manifest(tmp_path, name) for name in stages[:-1]]
    at = 0
    for stage in sorted(told, key=lambda stage: stage["layers"]):
        assert stage["layers"][0] == at
        at = stage["layers"][1]
        file = tmp_path / "packages" / f"stage-{stage['layers'][0]}..{at}" / "model.gguf"
        assert file.stat().st_size == stage["file"]["bytes"]
    assert at == 30
    again = split(tmp_path, models.SMOLLM2.path, "--auto", "3", "--no-check")
    assert again.count("was there") == 4


def test_the_result_as_json(tmp_path):
    told = json.loads(split(tmp_path, FIXTURES / "qwen3next-tiny.gguf", "--layers", "0..1,1..4", "--json"))
    assert told["schema"] == "skippy-stage-split" and "not_checked" not in told
    assert told["check"]["against"] == "hollow model" and told["check"]["passed"] is True   # not all layers
    assert [stage["layers"] for stage in told["check"]["stages"]] == ["0..1", "1..4"]
    added = [text for package in told["packages"] for text in package["manifest"].get("added", [])]
    assert any("dummy of zeros" in text for text in added)   # one layer of the other kind
    told = json.loads(split(tmp_path / "whole", FIXTURES / "qwen3next-tiny.gguf", "--auto", 2, "--json"))
    assert told["check"]["against"] == "whole model"
    assert told["check"]["passed"] is True and told["check"]["rows"] == told["check"]["equal"]


def test_each_stage_is_checked_alone_and_nothing_stays_behind(tmp_path):
    out = split(tmp_path, models.SMOLLM2.path, "--auto", "3", "--check-alone")
    assert "checked: 3 stages alone" in out
    out = split(tmp_path / "one", models.SMOLLM2.path, "--layers", "10..20")
    assert "checked: the stage alone" in out
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"model.gguf", "manifest.json"}
    assert not list(tmp_path.rglob("check"))
    refused("split", "--model", models.LLAMA_TINY.path, "--out", tmp_path / "no", "--auto", 2, "--no-check", "--check-alone",
            says="--no-check")


def test_no_stage_is_larger_than_asked(tmp_path):
    split(tmp_path, models.SMOLLM2.path, "--max-bytes", "40m", "--no-check")
    sizes = [path.stat().st_size for path in (tmp_path / "packages").glob("stage-*/model.gguf")]
    assert len(sizes) >= 3 and max(sizes) < 40_200_000   # and what is not layers
    split(tmp_path / "real", models.SMOLLM2.path, "--max-bytes", "45m", "--real-first-stage", "--no-check")
    sizes = [path.stat().st_size for path in (tmp_path / "real" / "packages").glob("stage-*/model.gguf")]
    assert max(sizes) < 50_000_000, sizes   # the tokenizer is not counted


def test_splitting_needs_little_memory(tmp_path):
    """Under an address space that the model would not fit into twice over."""
    model = models.SMOLLM2.path
    limit = 300 << 20   # the program, its libraries and reserved stacks take most of it
    code, _, err = run("split", "--model", model, "--out", tmp_path / "packages", "--auto", "2", "--no-check",
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert code == 0, err


def test_a_stage_is_certified_alone(tmp_path):
    split(tmp_path, FIXTURES / "deepseek3-tiny.gguf", "--layers", "0..2,2..3,3..5", "--no-check")
    packages = tmp_path / "packages"
    out = tmp_path / "certificate.json"
    code, text, err = run("certify", "--package", packages / "stage-2..3", "--vocabulary", packages / "vocabulary",
                          "--upstream", packages / "stage-0..2", "--rounds", 2, "--json", out)
    assert code == 0, err
    assert "certified" in text and "real upstream" in text and "times faster" in text
    told = json.loads(out.read_text())
    assert told["schema"] == "skippy-stage-certificate" and told["passed"] is True
    verdicts = {lane["name"]: lane["verdict"] for lane in told["lanes"]}
    assert verdicts.pop("q8_wire_validation") == "untested"
    assert set(verdicts.values()) == {"passed"}
    code, text, err = run("certify", "--package", packages / "stage-3..5", "--rounds", 2, "--q8-wire")
    assert code == 0, err
    assert "output head" in text and "synthetic" in text and "untested" not in text


def test_what_each_wire_does_to_the_logits(tmp_path):
    split(tmp_path, FIXTURES / "llama-tiny.gguf", "--auto", 2, "--no-check")
    out = tmp_path / "wires.json"
    code, text, err = run("wires", "--packages", tmp_path / "packages", "--tokens", 80, "--json", out)
    assert code == 0, err
    assert "everyday sentences" in text and "bit by bit" in text and "one ulp" in text
    told = json.loads(out.read_text())
    assert told["schema"] == "skippy-stage-wires" and told["passed"] is True and told["tokens"] == 80
    assert [row["wire"] for row in told["wires"]] == ["f32", "bf16", "f16", "int8", "one ulp"]
    assert [row["exact"] for row in told["wires"]] == [True, False, False, False, False]
    assert str(tmp_path) not in out.read_text()
    code, text, err = run("wires", "--packages", tmp_path / "packages", "--tokens", 80, "--json", "-")
    assert code == 0 and json.loads(text) == told, err
    split(tmp_path / "one", FIXTURES / "llama-tiny.gguf", "--auto", 1, "--no-check")
    refused("wires", "--packages", tmp_path / "one" / "packages", says="one stage only: there is no boundary")
    refused("wires", "--packages", tmp_path / "none", says="cannot read the folder")
    refused("wires", "--packages", FIXTURES, says="is no vocabulary package")
    refused("wires", "--packages", tmp_path / "packages", "--tokens", 50, says="--tokens")
    refused("wires", says="--packages is required")


def test_a_check_that_was_asked_for_and_cannot_be_made_is_no_success(tmp_path):
    """A limit on files stands for a full disk: the stage is there, its hollow model does not fit."""
    model = models.SMOLLM2.path
    command = ("split", "--model", model, "--out", tmp_path / "packages", "--layers", "3..5")
    split(tmp_path, model, "--layers", "3..5", "--no-check")
    small = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9 << 20, 9 << 20))}
    code, out, err = run(*command, "--check-alone", **small)
    assert code == 1 and "not checked: stage 3..5: cannot write" in out and "--no-check" in out, out + err
    code, out, _ = run(*command, **small)   # not by name: said, and the stages are there
    assert code == 0 and "not checked: " in out
    assert not list(tmp_path.rglob("check"))


def test_memory_that_runs_out_is_an_error(tmp_path):
    """Under limits from what does not even load the program to what almost suffices."""
    for mib in (40, 60, 90, 130, 200):
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))}
        code, _, err = run("split", "--model", models.SMOLLM2.path, "--out", tmp_path / str(mib), "--layers", "3..5",
                           "--check-alone", **limit)
        assert code in (0, 1, 2, 127) and "terminate called" not in err, (mib, code, err[-500:])
        assert not list(tmp_path.rglob("check"))


def test_what_a_killed_check_left_is_removed(tmp_path):
    split(tmp_path, FIXTURES / "llama-tiny.gguf", "--layers", "0..1", "--no-check")
    left = tmp_path / "packages" / "stage-0..1" / "check"
    left.mkdir()
    (left / "model.gguf.part").write_bytes(b"rest")
    split(tmp_path, FIXTURES / "llama-tiny.gguf", "--layers", "0..1", "--no-check")
    assert not left.exists()


def test_an_interruption_is_heard_while_stages_are_checked(tmp_path):
    split(tmp_path, models.GEMMA3.path, "--auto", 3, "--no-check")
    process = subprocess.Popen([binary(), "stage", "split", "--model", str(models.GEMMA3.path), "--out",
                                str(tmp_path / "packages"), "--auto", "3", "--check-alone"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    poll("the check has begun", lambda: list(tmp_path.rglob("check")))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "interrupted" in err, err
    assert not list(tmp_path.rglob("check"))


def test_what_cannot_be_cut_is_told_with_the_reason(tmp_path):
    for fixture in ("gemma4-tiny.gguf", "rwkv7-tiny.gguf"):
        refused("split", "--model", FIXTURES / fixture, "--out", tmp_path / "packages", "--auto", 2,
                says="cannot be cut into stages: ")
    assert not (tmp_path / "packages").exists()


def test_bad_input_is_told(tmp_path):
    model = models.LLAMA_TINY.path
    out = tmp_path / "packages"
    refused("split", "--model", model, "--out", out, "--layers", "0..1,2..3", says="a gap between 0..1 and 2..3")
    refused("split", "--model", model, "--out", out, "--layers", "0..99", says="beyond the model")
    refused("split", "--model", model, "--out", out, "--auto", 99, says="99 stages")
    refused("split", "--model", model, "--out", out, "--max-bytes", 10, says="heaviest layer")
    refused("split", "--model", model, "--out", out, "--max-bytes=-5", says="must be a number of bytes")
    refused("split", "--model", model, "--out", out, "--max-bytes", "9" * 20, says="more than there can be")
    refused("split", "--model", model, "--out", out, "--layers", "1..2", "--real-first-stage", says="begin with layer 0")
    refused("split", "--model", model, "--out", out, says="Exactly 1 option from [--layers,--auto,--max-bytes]")
    refused("split", "--model", tmp_path / "none.gguf", "--out", out, "--auto", 2, says="none.gguf")
    refused("split", "--model", __file__, "--out", out, "--auto", 2, says="not a GGUF")
    refused("certify", "--package", out, says="no stage package")
    refused("certify", says="--package is required")
    refused("nothing", says="Usage")
    assert not out.exists()


def full_disk():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_a_disk_without_room_is_told_and_nothing_is_lost(tmp_path):
    model = models.SMOLLM2.path
    code, _, err = run("split", "--model", model, "--out", tmp_path / "packages", "--auto", "2", "--no-check",
                       preexec_fn=full_disk)
    assert code == 2 and "cannot write" in err, err
    assert split(tmp_path, model, "--auto", "2", "--no-check").count("was there") == 0
