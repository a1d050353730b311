"""skippy bench: traces on the fake runtime and on a model, what moving state costs, clear errors for bad input."""
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


def test_snapshots_are_placed_and_weigh_as_told(tmp_path):
    def replay(*arguments):
        result = replayed(tmp_path, "--shape", "hybrid", "--snapshot-rows", 100, "--chunk", 256, "--policy", "lru",
                          "--cap-percents", 100, *arguments)
        return result, result["rows"][0]

    result, dense = replay()
    assert result["snapshot_bytes"] % 100 == 0
    result, bare = replay("--snapshot-spacing", 0, "--no-junctions")
    assert result["snapshots_at"] == "at prompt ends"
    assert bare["snapshots"] < dense["snapshots"]
    assert bare["evaluated_tokens"] > dense["evaluated_tokens"]
    _, parts = replay("--snapshot-spacing", 0, "--no-junctions", "--part-snapshots")
    assert parts["evaluated_tokens"] < bare["evaluated_tokens"]


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
    refused("replay", trace, "--snapshot-rows", 100, says="--shape hybrid")
    refused("replay", trace, "--model", trace, "--scale", 32, says="not a GGUF")
    refused("nothing", says="Usage")
    broken = tmp_path / "broken.jsonl"
    broken.write_text(trace.read_text() + "{\n")
    refused("replay", broken, says="broken.jsonl:7:")


def test_compare_is_found_and_tells_bad_input(tmp_path):
    code, out, err = run("compare", "--help")
    assert code == 0 and "--llama-server" in out, err
    code, _, err = run("compare", "--model", tmp_path / "missing.gguf")
    assert code == 2 and "no such file" in err


def test_micro_measures_every_kind_of_memory(tmp_path):
    for model in (models.LLAMA_TINY, models.GEMMA3_TINY, models.FALCON_H1, models.MAMBA2):
        out = tmp_path / "micro.json"
        code, table, err = run("micro", "-m", model.path, "-t", 1, "-c", 512, "--lengths", "100,500,5000", "--json", out)
        assert code == 0, err
        result = json.loads(out.read_text())
        assert result["schema"] == "skippy-micro" and result["version"] == 1
        assert [point["tokens"] for point in result["points"]] == [100, 500]
        for point in result["points"]:
            assert all(point[f"{step}_us"] > 0 for step in ("memcpy", "digest", "export", "import", "record", "lookup"))
        assert "GB/s" in table


def test_micro_tells_bad_input():
    for arguments, says in ((("-m", "missing.gguf"), "missing.gguf"), ((), "--model is required"),
                            (("-m", models.LLAMA_TINY.path, "--lengths", "none"), "none"),
                            (("-m", models.LLAMA_TINY.path, "-c", 512, "--lengths", "9999"), "no length fits"),
                            (("-m", models.LLAMA_TINY.path, "--lenghts", "9"), "did you mean --lengths?")):
        code, out, err = run("micro", *arguments)
        assert code == 2, f"exit code {code}\n{err[-2000:]}"
        assert says in err, err[-2000:]
        assert out == ""
