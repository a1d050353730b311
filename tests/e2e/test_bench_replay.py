"""skippy bench replay: a trace on the fake runtime and on a model, and clear errors for what is no trace."""
import json
import subprocess

import models
from process import binary

# A system prompt of two blocks under four questions, one of which goes on and one of which comes back.
TRACE = [[1, 2, 3], [1, 2, 4], [1, 2, 5], [1, 2, 3, 6], [7], [1, 2, 4]]


def run(*arguments, timeout=120):
    done = subprocess.run([binary(), "bench", *map(str, arguments)], capture_output=True, text=True, errors="replace",
                          timeout=timeout, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def write(path, paths=TRACE, block=512):
    lines = [json.dumps({"timestamp": i, "input_length": block * len(ids), "output_length": 1, "hash_ids": ids})
             for i, ids in enumerate(paths)]
    path.write_text("\n".join(lines) + "\n")
    return path


def replayed(tmp_path, *arguments):
    out = tmp_path / "replay.json"
    code, table, err = run("replay", write(tmp_path / "trace.jsonl"), *arguments, "--json", out)
    assert code == 0, err
    result = json.loads(out.read_text())
    assert result["schema"] == "skippy-replay" and result["version"] == 1
    for row in result["rows"]:
        assert row["policy"] in table and str(row["evaluated_tokens"]) in table
    return result


def test_with_room_for_all_only_what_is_new_is_evaluated(tmp_path):
    result = replayed(tmp_path, "--caps", "1000000")
    assert result["requests"] == len(TRACE)
    assert result["perfect_tree"]["evaluated_tokens"] == 7 * 512
    assert [row["policy"] for row in result["rows"]] == ["lru", "benefit"]
    for row in result["rows"]:
        # Decoded results are off: what is known to its end evaluates its last token.
        assert row["evaluated_tokens"] == 7 * 512 + 1
        assert row["hits"] == 4
        assert row["optimum"]["evaluated_tokens"] == 7 * 512


def test_caps_are_held_and_the_optimum_is_never_beaten(tmp_path):
    result = replayed(tmp_path, "--caps", "600,1536,4096", "--policy", "lru")
    evaluated = [row["evaluated_tokens"] for row in result["rows"]]
    assert evaluated == sorted(evaluated, reverse=True)
    for row in result["rows"]:
        assert row["peak_bytes"] <= row["cap_bytes"]
        assert row["evaluated_tokens"] >= row["optimum"]["evaluated_tokens"]


def test_a_model_replays_shorter_texts(tmp_path):
    result = replayed(tmp_path, "--model", models.LLAMA_TINY.path, "--scale", 32, "--chunk", 32, "--threads", 1,
                      "--caps", 100000, "--policy", "lru")
    assert result["block_tokens"] == 16
    assert result["rows"][0]["evaluated_tokens"] == 7 * 16 + 1


def test_bad_input_is_told(tmp_path):
    def refused(*arguments, says):
        code, out, err = run(*arguments)
        assert code == 2, f"exit code {code}\n{err[-2000:]}"
        assert says in err, err[-2000:]
        assert out == ""

    trace = write(tmp_path / "good.jsonl")
    refused("replay", says="trace")
    refused("replay", tmp_path / "missing.jsonl", says="cannot read the trace")
    refused("replay", trace, "--block-tokens", 256, says="--block-tokens")
    refused("replay", trace, "--scale", 100, says="cannot be divided")
    refused("replay", trace, "--polcy", "lru", says="did you mean --policy?")
    refused("replay", trace, "--policy", "magic", says="magic")
    refused("replay", trace, "--caps", "many", says="many")
    refused("replay", trace, "--model", trace, "--scale", 32, says="not a GGUF")
    refused("nothing", says="Usage")
    broken = tmp_path / "broken.jsonl"
    broken.write_text(trace.read_text() + "{\n")
    refused("replay", broken, says="broken.jsonl:7:")
