"""What a server knows about its own exactness before it caches: a certificate, or a test of a few seconds."""
import json
import subprocess

import httpx
import pytest

import models

MODELS = [models.DEEPSEEK3, models.GEMMA3_TINY, models.QWEN3NEXT, models.MAMBA2]


@pytest.fixture
def home(tmp_path):
    return {"XDG_CACHE_HOME": str(tmp_path)}


def start(pool, model, home, *extra):
    return pool.start(model, environment=home, extra=extra)


def proof(process):
    return httpx.get(process.url + "/props").json()["cache"]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_the_first_start_tests_and_the_second_believes(pool, model, home, tmp_path):
    first = start(pool, model, home).wait_until_healthy()
    assert "by the self-test of" in proof(first)["proof"]
    assert proof(first)["policy"] in ("resident_kv", "kv_recurrent")
    assert first.stop() == 0
    assert "testing for a few seconds" in first.log()
    kept = list((tmp_path / "skippy" / "certificates").iterdir())
    assert len(kept) == 1 and json.loads(kept[0].read_text())
    second = start(pool, model, home).wait_until_healthy()
    assert proof(second)["proof"] == proof_of_log(first)
    assert second.stop() == 0
    assert "testing" not in second.log()


def proof_of_log(process):
    return next(line.split(None, 1)[1] for line in process.log().splitlines() if line.split()[:1] == ["proof"])


def test_another_setting_is_another_test(pool, home):
    assert start(pool, models.DEEPSEEK3, home).wait_until_healthy().stop() == 0
    bit = start(pool, models.DEEPSEEK3, home, "--exactness", "bit").wait_until_healthy()
    assert bit.stop() == 0
    assert "testing" in bit.log()
    chunks = start(pool, models.DEEPSEEK3, home, "-ub", "32").wait_until_healthy()
    assert chunks.stop() == 0
    assert "testing" in chunks.log()
    # and each is remembered beside the other
    for extra in ((), ("--exactness", "bit"), ("-ub", "32")):
        again = start(pool, models.DEEPSEEK3, home, *extra).wait_until_healthy()
        assert again.stop() == 0
        assert "testing" not in again.log()


def test_no_self_test(pool, home, tmp_path):
    process = start(pool, models.DEEPSEEK3, home, "--no-self-test").wait_until_healthy()
    assert "untested" in proof(process)["proof"]
    assert process.stop() == 0
    assert not (tmp_path / "skippy").exists()


def test_a_damaged_result_is_told_and_tested_anew(pool, home, tmp_path):
    assert start(pool, models.DEEPSEEK3, home).wait_until_healthy().stop() == 0
    (kept,) = (tmp_path / "skippy" / "certificates").iterdir()
    kept.write_text(kept.read_text().replace("bit", "tib", 1))
    again = start(pool, models.DEEPSEEK3, home).wait_until_healthy()
    assert again.stop() == 0
    assert kept.name in again.log() and "testing" in again.log()


def test_a_named_certificate(pool, home, tmp_path):
    assert start(pool, models.DEEPSEEK3, home).wait_until_healthy().stop() == 0
    (kept,) = (tmp_path / "skippy" / "certificates").iterdir()
    believed = start(pool, models.DEEPSEEK3, home, "--certificate", str(kept)).wait_until_healthy()
    assert believed.stop() == 0

    damaged = tmp_path / "damaged.json"
    damaged.write_text(kept.read_text()[:-20])
    for model, file, says in ((models.LLAMA_TINY, kept, "model"), (models.DEEPSEEK3, damaged, "damaged.json"),
                              (models.DEEPSEEK3, tmp_path / "absent.json", "absent.json")):
        done = subprocess.run([*believed.command[:2], "--model", model.path, "--certificate", str(file),
                               "-c", "1024", "-t", "1", "-ub", "64", "--port", "0"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and says in done.stderr, done.stderr


def test_a_chunk_as_large_as_the_context_is_cached_too(pool, home):
    for model in MODELS:
        process = start(pool, model, home, "-c", "512", "-ub", "512").wait_until_healthy()
        assert proof(process)["policy"] != "off", proof(process)
        assert process.stop() == 0
