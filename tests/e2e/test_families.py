"""skippy families: the catalogue, what one file is, and clear errors for what is no model."""
import json
import os
import subprocess
from pathlib import Path

import models
from process import binary

FIXTURES = Path(os.environ.get("SKIPPY_FIXTURES") or Path(binary()).parent / "fixtures")


def run(*arguments, timeout=60):
    done = subprocess.run([binary(), "families", *map(str, arguments)], capture_output=True, text=True, errors="replace",
                          timeout=timeout, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def looked_at(*arguments):
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def refused(*arguments, says):
    code, out, err = run(*arguments)
    assert code == 2, f"exit code {code}\n{err[-2000:]}"
    assert says in err, err[-2000:]
    assert out == ""


def test_catalogue():
    code, table, _ = run()
    assert code == 0
    listed = looked_at()
    assert listed["schema"] == "skippy-families" and listed["version"] == 1
    for family in listed["families"]:
        assert family["name"] in table
        assert family["policy"] in ("resident_kv", "kv_recurrent", "off")
        assert family["reason"] or family["policy"] != "off"
        certificate = family["certificate"]
        assert certificate["model"] or certificate["fixtures"] or certificate["note"]


def test_latent_and_expanded_state_of_deepseek():
    latent = looked_at("--model", FIXTURES / "deepseek3-tiny.gguf")
    expanded = looked_at("--model", FIXTURES / "deepseek2-tiny.gguf")
    assert latent["mla"]["state"] == "latent" and expanded["mla"]["state"] == "expanded"
    assert latent["measured"]["bytes_per_token"] == latent["mla"]["latent_bytes_per_token"]
    assert expanded["measured"]["bytes_per_token"] == expanded["mla"]["expanded_bytes_per_token"]
    assert latent["mla"]["held"] == "latent" and expanded["mla"]["held"] == "expanded"
    assert latent["family"]["name"] == "deepseek3" and expanded["family"]["name"] == "deepseek2"


def test_hybrid_in_words():
    code, out, err = run("--model", FIXTURES / "qwen3next-tiny.gguf")
    assert code == 0, err
    for words in ["Qwen3-Next", "architecture qwen3next", "kv_recurrent", "where a snapshot was taken", "confirmed"]:
        assert words in out


def test_cache_types_count():
    path = FIXTURES / "llama-tiny.gguf"
    usual = looked_at("--model", path)
    wider = looked_at("--model", path, "--cache-type-k", "f32", "--cache-type-v", "f32")
    assert usual["confirmed"] and wider["confirmed"]
    assert wider["measured"]["bytes_per_token"] == 2 * usual["measured"]["bytes_per_token"]


def test_a_family_is_known_without_loading():
    found = looked_at("--model", FIXTURES / "mamba2-tiny.gguf", "--no-measure")
    assert found["family"]["name"] == "mamba2"
    assert found["measured"] is None and not found["confirmed"]
    assert found["expected"]["bytes_per_snapshot"] > 0 and found["expected"]["bytes_per_token"] == 0


def renamed(path, architecture, folder):
    """The file under another architecture of equally many letters."""
    with open(path, "rb") as f:
        content = f.read()
    other = folder / f"{architecture}.gguf"
    other.write_bytes(content.replace(b"llama", architecture.encode()))
    return other


def test_unknown_architectures_are_classified_by_their_memory(tmp_path):
    path = renamed(models.SMOLLM2.path, "qwen2", tmp_path)  # no family of ours, and llama.cpp can load it
    found = looked_at("--model", path)
    assert found["family"] is None and "qwen2" in found["why"]
    assert found["measured"]["policy"] == "resident_kv" and not found["confirmed"]
    assert found["measured"]["bytes_per_token"] == looked_at("--model", models.SMOLLM2.path)["measured"]["bytes_per_token"]
    code, out, err = run("--model", path)
    assert code == 0, err
    assert "classified by its memory" in out and "any token" in out


def test_what_llama_cpp_cannot_load_is_not_measured(tmp_path):
    code, out, err = run("--model", renamed(models.LLAMA_TINY.path, "lLama", tmp_path))
    assert code == 0, err
    assert "unknown" in out and "not measured" in out


def test_bad_input(tmp_path):
    refused("--model", tmp_path / "nothing.gguf", says="No such file")
    refused("--model", tmp_path, says="not a regular file")
    text = tmp_path / "text.gguf"
    text.write_text("hello")
    refused("--model", text, says="not a GGUF file")
    cut = tmp_path / "cut.gguf"
    with open(models.LLAMA_TINY.path, "rb") as f:
        cut.write_bytes(f.read(1_000_000))
    refused("--model", cut, says="cut.gguf")
    refused("--colour", says="--colour")
    refused("--model", models.LLAMA_TINY.path, "--cache-type-k", "f17", says="f17")


def test_a_server_tells_its_models_family(pool):
    client = pool.get(models.QWEN3NEXT)
    assert client.get("/props")["cache"]["family"] == "Qwen3-Next, memory as expected"
