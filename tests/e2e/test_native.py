"""llama-server's native endpoints and our admin ones."""
import json
import subprocess

import httpx
import pytest

import metrics
import models
from client import HttpError
from process import binary, poll

PROMPT = "One, two, three, four,"


@pytest.fixture(params=[models.SMOLLM2, models.QWEN3NEXT], ids=lambda m: m.name)
def server(pool, request):
    client = pool.get(request.param, ctx=512, lanes=2)
    client.wait_idle()
    client.forget()
    client.resync()
    return client


def test_completion_has_llama_servers_fields(server):
    answer = server.completion(PROMPT, 4)
    for name in ("content", "tokens", "id_slot", "stop", "model", "tokens_predicted", "tokens_evaluated", "generation_settings",
                 "prompt", "has_new_line", "truncated", "stop_type", "stopping_word", "tokens_cached", "timings"):
        assert name in answer.raw, name
    assert answer.raw["stop"] is True and answer.raw["stop_type"] == "limit" and answer.raw["index"] == 0
    assert answer.raw["generation_settings"]["n_predict"] == 4
    assert len(answer.tokens) == answer.predicted == 4
    assert server.post("/detokenize", {"tokens": answer.tokens})["content"] == answer.text
    server.check_counters()


def test_completion_of_a_batch(server):
    prompts = [PROMPT, "Red, green,", server.tokenize("Monday, Tuesday,")]
    batch = server.post("/completion", {"prompt": prompts, "n_predict": 3, "temperature": 0})
    assert [entry["index"] for entry in batch] == [0, 1, 2]
    for prompt, entry in zip(prompts, batch):
        assert entry["content"] == server.post("/completion", {"prompt": prompt, "n_predict": 3, "temperature": 0})["content"]


def test_completion_of_mixed_text_and_tokens(server):
    tokens = server.tokenize(PROMPT)
    mixed = server.completion([*tokens, " five, six,"], 3)
    assert mixed.prompt_tokens > len(tokens)


def test_completion_response_fields(server):
    answer = server.post("/completion", {"prompt": PROMPT, "n_predict": 2, "response_fields": ["content", "timings/cache_n"]})
    assert set(answer) == {"content", "timings/cache_n"}
    answer = server.post("/completion", {"prompt": PROMPT, "n_predict": 2, "response_fields": ["content", "skippy"]})
    assert set(answer) == {"content", "skippy"} and "hit_kind" in answer["skippy"]


def test_verbose_servers_tell_the_prompt_unless_told_not_to(pool):
    server = pool.get(models.LLAMA_TINY, ctx=512, extra=("--verbose",))
    body = {"messages": [{"role": "user", "content": "Hi."}], "max_tokens": 1}
    assert "Hi." in server.post("/v1/chat/completions", body)["__verbose"]["prompt"]
    assert "__verbose" not in server.post("/v1/chat/completions", {**body, "verbose": False})


def test_completion_stream(server):
    plain = server.completion(PROMPT, 5)
    events = list(server.events("/completion", {"prompt": PROMPT, "n_predict": 5, "temperature": 0, "ignore_eos": True}))
    assert "".join(e["content"] for e in events) == plain.text
    assert [e["stop"] for e in events] == [False] * (len(events) - 1) + [True]
    assert events[-1]["timings"]["predicted_n"] == 5


def test_infill_without_fim_tokens_is_an_error(pool):
    server = pool.get(models.GEMMA3, ctx=512)
    with pytest.raises(HttpError) as caught:
        server.post("/infill", {"input_prefix": "def f(", "input_suffix": "return 1", "n_predict": 2})
    assert caught.value.status in (400, 501) and "infill" in caught.value.error["message"].lower()
    assert server.completion(PROMPT, 1).predicted == 1


def test_tokenize_and_back(server):
    for text in ("Hello, world!", "", " leading", "emoji \U0001f34b and \u00e9", "<|im_start|>user"):
        tokens = server.tokenize(text, add_special=False)
        assert server.post("/detokenize", {"tokens": tokens})["content"] == text
    pieces = server.post("/tokenize", {"content": "Hello there", "with_pieces": True})["tokens"]
    assert "".join(p["piece"] for p in pieces) == "Hello there" and all(isinstance(p["id"], int) for p in pieces)


def test_special_tokens_are_parsed_only_when_asked(server):
    assert len(server.tokenize("<|im_start|>", parse_special=True)) == 1
    assert len(server.tokenize("<|im_start|>", parse_special=False)) > 1


def test_apply_template_is_what_chat_evaluates(server):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}]
    prompt = server.post("/apply-template", {"messages": messages})["prompt"]
    assert prompt == ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n")
    tokens = server.rendered(messages)
    assert server.chat(messages).prompt_tokens == len(tokens)
    # the same tokens: an exact repeat through the other route
    assert server.completion(tokens, 2).cached >= len(tokens) - 1


def test_input_tokens_are_counted(server):
    messages = [{"role": "user", "content": "Hi."}]
    count = server.post("/v1/chat/completions/input_tokens", {"messages": messages})["input_tokens"]
    assert count == len(server.rendered(messages))


def test_props(server):
    props = server.get("/props")
    assert props["total_slots"] == 2 and props["default_generation_settings"]["n_ctx"] == 512
    assert "<|im_start|>" in props["chat_template"] and props["model_path"] and props["build_info"]
    with pytest.raises(HttpError):
        server.post("/props", {"chat_template": "x"})


def test_slots(server):
    answer = server.completion(PROMPT, 3)
    slots = server.get("/slots")
    assert [slot["id"] for slot in slots] == [0, 1]
    assert all(slot["n_ctx"] == 512 and slot["is_processing"] is False for slot in slots)
    assert any(slot["n_resident_tokens"] >= answer.prompt_tokens for slot in slots)


def test_slot_files_are_refused(server):
    for action in ("save", "restore", "erase"):
        with pytest.raises(HttpError) as caught:
            server.post(f"/slots/0?action={action}", {"filename": "../x"})
        assert caught.value.status in (400, 404, 501) and caught.value.error["message"]


def test_slot_shows_work_in_progress(server):
    stream = server.events("/completion", {"prompt": PROMPT, "n_predict": 400, "ignore_eos": True})
    next(stream)
    busy = poll("one slot is processing", lambda: [slot for slot in server.get("/slots") if slot["is_processing"]])
    stream.close()
    server.wait_idle()
    assert len(busy) == 1 and busy[0]["next_token"][0]["n_decoded"] >= 1


def test_health(server):
    assert server.get("/health") == {"status": "ok"} == server.get("/v1/health")


def test_metrics_are_well_formed(server):
    server.completion(PROMPT, 2)
    response = server.request("GET", "/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples, kinds = metrics.parse(response.text)
    assert all(name.endswith(("_total", "_max", "_bucket", "_sum", "_count"))
               for name, kind in kinds.items() if kind == "counter")
    for name in ("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total", "llamacpp:prompt_seconds_total",
                 "llamacpp:tokens_predicted_total", "llamacpp:requests_processing", "llamacpp:requests_deferred",
                 "llamacpp:n_decode_total", "skippy_prefix_cache_queries_total", "skippy_prefix_cache_hits_total",
                 "skippy_cache_physical_bytes", "skippy_cache_max_bytes", "skippy_evicted_tokens_total"):
        assert (name, ()) in samples, name


def test_metrics_never_go_back(server):
    _, kinds = metrics.parse(server.request("GET", "/metrics").text)
    before = server.series()
    server.completion(PROMPT, 3)
    server.forget()
    after = server.series()
    assert all(after[key] >= value for key, value in before.items() if kinds.get(key[0]) == "counter")


def test_metrics_are_opt_in(pool):
    process = pool.start(models.DEEPSEEK3, metrics_flag=False).wait_until_healthy()
    assert httpx.get(process.url + "/metrics").status_code == 501
    assert process.stop() == 0


def test_lora_adapters_are_none(server):
    assert server.get("/lora-adapters") == []
    server.post("/lora-adapters", [])
    with pytest.raises(HttpError) as caught:
        server.post("/lora-adapters", [{"id": 0, "scale": 1.0}])
    assert caught.value.status == 400


def test_cache_page(server):
    prompt = server.tokenize(PROMPT * 10)
    for _ in range(2):
        server.completion(prompt, 2)
    page = server.get("/cache")
    host = page["tiers"]["host"]
    assert page["enabled"] is True and page["reuse"] and page["model"]
    assert 0 < host["physical_bytes"] <= host["max_bytes"]
    assert sum(host["bytes_by_component"].values()) == host["physical_bytes"]
    assert host["entries"] > 0 and host["known_tokens"] >= len(prompt)
    assert sum(page["requests_by_hit_kind"].values()) >= 2
    tokens = page["prompt_tokens"]
    assert tokens.pop("total") == sum(tokens.values())


def test_cache_status_command(server):
    """`skippy cache status` prints the same facts, for people and as JSON."""
    text = subprocess.run([binary(), "cache", "status", "--url", server.process.url], capture_output=True, text=True, timeout=30)
    assert text.returncode == 0 and "entries" in text.stdout.lower(), text.stderr
    out = subprocess.run([binary(), "cache", "status", "--json", "--url", server.process.url], capture_output=True, text=True, timeout=30)
    assert json.loads(out.stdout)["tiers"]["host"]["max_bytes"] == server.get("/cache")["tiers"]["host"]["max_bytes"]


def test_cache_lookup(server):
    prompt = server.tokenize(PROMPT * 10)
    miss = server.post("/cache/lookup", {"prompt": prompt})
    assert (miss["cached_tokens"], miss["miss_reason"], miss["hit_kind"]) == (0, "never_seen", "none")
    server.completion(prompt, 2)
    hit = server.post("/cache/lookup", {"prompt": prompt})
    assert hit["cached_tokens"] >= len(prompt) - 1 and hit["explanation"]
    with pytest.raises(HttpError):
        server.post("/cache/lookup", {"prompt": [prompt, prompt]})
    with pytest.raises(HttpError):
        server.post("/cache/lookup", {})


def test_reset_prefix_cache(server):
    prompt = server.tokenize(PROMPT * 10)
    server.completion(prompt, 2)
    assert server.post("/reset_prefix_cache", {})["success"] is True
    host = server.get("/cache")["tiers"]["host"]
    assert (host["physical_bytes"], host["entries"]) == (0, 0)
    assert server.completion(prompt, 2).cached == 0, "lanes are forgotten, too"


def test_several_addresses(pool):
    server = pool.get(models.LLAMA_TINY, ctx=512, extra=("--host", "127.0.0.1,127.0.0.2"))
    other = f"http://127.0.0.2:{server.http.base_url.port}"
    answer = httpx.post(f"{other}/completion", json={"prompt": PROMPT, "n_predict": 2, "temperature": 0, "ignore_eos": True}, timeout=60).json()
    assert answer["content"] == server.completion(PROMPT, 2).text


def test_cors_and_head(server):
    response = server.http.options("/v1/chat/completions", headers={"Origin": "http://x", "Access-Control-Request-Method": "POST"})
    assert response.status_code in (200, 204)
