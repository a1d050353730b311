"""The numbers are there, are true, and add up, on every route. Fault kind K10."""
import json

import pytest

import models
from process import poll
from prompts import text
from talk import Talk

MESSAGES = [{"role": "user", "content": text("telemetry", 60)}]


@pytest.fixture(params=[models.DEEPSEEK3, models.QWEN3NEXT, models.SMOLLM2], ids=lambda m: m.name)
def talk(pool, request):
    return Talk(pool, request.param, request.function.__name__)


def usages(talk, prompt):
    """Every route's own words for (prompt tokens, cached tokens), plain and streamed."""
    client = talk.client

    def openai(usage):
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    def last(path, body):
        return list(client.events(path, body))

    body = {"max_tokens": 2, "temperature": 0}
    yield "native", (lambda r: (r["tokens_evaluated"], r["timings"]["cache_n"]))(
        client.post("/completion", {**body, "prompt": prompt}))
    event = last("/completion", {**body, "prompt": prompt})[-1]
    yield "native stream", (event["tokens_evaluated"], event["timings"]["cache_n"])
    yield "text", openai(client.post("/v1/completions", {**body, "prompt": prompt})["usage"])
    events = last("/v1/completions", {**body, "prompt": prompt, "stream_options": {"include_usage": True}})
    yield "text stream", openai(events[-1]["usage"])
    chat = {**body, "messages": MESSAGES}
    yield "chat", openai(client.post("/v1/chat/completions", chat)["usage"])
    events = last("/v1/chat/completions", {**chat, "stream_options": {"include_usage": True}})
    yield "chat stream", openai(events[-1]["usage"])

    def anthropic(usage):
        return usage["input_tokens"] + usage["cache_read_input_tokens"], usage["cache_read_input_tokens"]

    yield "messages", anthropic(client.post("/v1/messages", chat)["usage"])
    events = last("/v1/messages", chat)
    yield "messages stream", anthropic(next(e for e in events if e["type"] == "message_delta")["usage"])

    def responses(usage):
        return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]

    request = {"input": MESSAGES[0]["content"], "max_output_tokens": 2, "temperature": 0}
    yield "responses", responses(client.post("/v1/responses", request)["usage"])
    events = last("/v1/responses", request)
    yield "responses stream", responses(events[-1]["response"]["usage"])


def test_absent_zero(talk):
    """On a miss the field is there and 0, on every route."""
    talk.client.forget()
    prompt = talk.prompts("p", 80)
    routes = usages(talk, prompt)
    for name, (total, cached) in routes:
        assert (total > 0, cached) == (True, 0), name
        talk.client.forget()


def test_evalcount(talk):
    """prompt_tokens is what was submitted, cached or not; cached tokens stand in a field of their own."""
    prompt = talk.prompts("p", 80)
    first = dict(usages(talk, prompt))
    second = dict(usages(talk, prompt))
    chat = {first[name][0] for name in first if "native" not in name and "text" not in name}
    assert len(chat) == 1, "all chat routes render the same prompt"
    for name, (total, cached) in second.items():
        assert total == first[name][0] and total - 1 <= cached <= total, name
    assert second["native"][0] == len(prompt)


def test_hits_zero(talk):
    """Ten repeats: queries and hits grow by the sums of the per-request fields, tier by tier."""
    prompt = talk.prompts("p", 80)
    before = talk.client.counters()
    answers = [talk.client.completion(prompt, 2) for _ in range(10)]
    after = talk.client.counters()

    def grown(name):
        return after[name] - before[name]

    assert grown("skippy_prefix_cache_queries_total") == 10 * len(prompt)
    assert grown("skippy_prefix_cache_hits_total") == sum(a.cached for a in answers) >= 9 * (len(prompt) - 1)
    assert grown("llamacpp:prompt_tokens_total") == sum(a.evaluated for a in answers)
    assert grown("llamacpp:tokens_predicted_total") == 20
    talk.client.check_counters()


def test_counters_by_label(talk):
    """Tokens by tier and requests by hit kind, too, are the sums of what the requests said."""
    before = talk.client.series()
    prompts = [talk.prompts("a", 80), talk.prompts("b", 90), talk.prompts("a", 80), talk.prompts("b", 90)[:50]]
    answers = [talk.client.completion(p, 2) for p in prompts]
    grown = {key: value - before[key] for key, value in talk.client.series().items() if key in before}
    # a decoded result is counted apart in /metrics; in an answer it stands with its tier
    decoded = sum(a.cached for a in answers if a.skippy["hit_kind"] == "decoded_result")
    assert grown["skippy_cached_tokens_total", (("cache_source", "decoded_result"),)] == decoded
    for tier in ("device", "host"):
        assert grown["skippy_cached_tokens_total", (("cache_source", tier),)] == sum(
            a.skippy["cached_tokens_details"][tier] for a in answers if a.skippy["hit_kind"] != "decoded_result")
    for kind in ("none", "hot", "warm", "decoded_result"):
        assert grown["skippy_requests_by_hit_kind_total", (("hit_kind", kind),)] == sum(
            a.skippy["hit_kind"] == kind for a in answers)
    assert grown["skippy_prompt_tokens_by_source_total", (("source", "evaluated"),)] == sum(a.evaluated for a in answers)
    assert grown["skippy_prompt_tokens_by_source_total", (("source", "cached"),)] == sum(a.cached for a in answers)


def test_n_eval_1(talk):
    """A full hit evaluated nothing and says so: no tokens, no time, no rate."""
    prompt = talk.prompts("p", 80)
    talk.client.completion(prompt, 1)
    answer = talk.client.completion(prompt, 1)
    assert answer.skippy["hit_kind"] == "decoded_result"
    timings = answer.raw["timings"]
    assert (timings["prompt_n"], timings["prompt_ms"], timings["prompt_per_second"]) == (0, 0, None)
    assert timings["cache_n"] == len(prompt)
    # more tokens need the state too: still nothing of the prompt is evaluated
    answer = talk.client.completion(prompt, 4)
    assert answer.evaluated <= 1


def test_miss_reasons(talk):
    prompt = talk.prompts("p", 100)
    assert talk.client.completion(prompt, 1).skippy["miss_reason"] == "never_seen"
    cut = prompt[:50] + talk.prompts("u", 20, after=prompt[50:51])
    own = talk.client.completion(cut, 1).skippy
    assert own["miss_reason"] in ("diverged", "no_boundary_state") and own["first_different"] == 50
    # a prompt that ends inside known text has nothing different in it
    assert talk.client.completion(prompt[:70], 1).skippy["first_different"] == 70


def test_progress_reaches_the_total(talk):
    """prompt_progress counts from the cached tokens to the whole prompt, without going back."""
    prompt = talk.prompts("p", 200)
    for _ in range(2):
        steps = [e["prompt_progress"] for e in talk.client.events(
            "/completion", {"prompt": prompt, "n_predict": 2, "temperature": 0, "return_progress": True})
            if "prompt_progress" in e]
        done = [s["processed"] for s in steps]
        assert done and done == sorted(done) and done[-1] == 200
        assert all(s["total"] == 200 and s["cache"] <= s["processed"] for s in steps)


def test_dry_run_tells_what_happens_then(talk):
    prompt = talk.prompts("p", 150)
    talk.client.completion(prompt, 2)
    for ask in (prompt, prompt[:100], prompt + talk.prompts("u", 20), prompt[:90] + talk.prompts("v", 20, after=prompt[90:91])):
        dry = talk.client.post("/cache/lookup", {"prompt": ask})
        again = talk.client.post("/cache/lookup", {"prompt": ask})
        assert dry == again, "a dry run changes nothing"
        assert dry["cached_tokens"] + dry["evaluated_tokens"] == dry["prompt_tokens"] == len(ask)
        answer = talk.client.completion(ask, 1)
        assert (answer.cached, answer.skippy["hit_kind"]) == (dry["cached_tokens"], dry["hit_kind"])


def test_log_requests_has_one_line_a_request_and_no_text(pool):
    talk = Talk(pool, models.DEEPSEEK3, "log", extra=("--log-requests",))
    secret = "xylophone marmalade"
    talk.client.post("/completion", {"prompt": secret + " walks", "n_predict": 2, "temperature": 0})
    answer = talk.client.completion(talk.prompts("p", 60), 3)

    def lines():
        return [json.loads(line) for line in talk.client.process.log().splitlines() if line.startswith('{"event":"request"')]

    # the line is written behind the answer
    poll("two request lines", lambda: len(lines()) >= 2)
    line = lines()[-1]
    assert (line["prompt_tokens"], line["cached_tokens"], line["generated_tokens"]) == (60, answer.cached, 3)
    log = talk.client.process.log()
    assert "xylophone" not in log and "marmalade" not in log


def test_the_usage_chunk_of_several_choices_speaks_of_one(talk):
    """Usage, timings and cache report of a streamed answer with n choices must add up."""
    body = {"messages": [{"role": "user", "content": text("n two", 60)}], "n": 2, "max_tokens": 2, "temperature": 0,
            "stream_options": {"include_usage": True}}
    for _ in range(2):   # cold, then repeated
        last = list(talk.client.events("/v1/chat/completions", body))[-1]
        cached, evaluated = last["timings"]["cache_n"], last["timings"]["prompt_n"]
        assert cached + evaluated == last["usage"]["prompt_tokens"]
        assert cached == last["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert evaluated == last["skippy"]["evaluated_tokens"]


def test_dry_runs_of_other_bodies(talk):
    """What /cache/lookup takes: a Responses body too; and a request that forbids the cache gets none."""
    said = "Tell me of the sea, please, in a few words, and then of the land."
    talk.client.post("/v1/responses", {"input": said, "max_output_tokens": 1, "temperature": 0})
    lookup = talk.client.post("/cache/lookup", {"input": said})
    assert lookup["cached_tokens"] == lookup["prompt_tokens"] > 10
    forbidden = talk.client.post("/cache/lookup", {"input": said, "cache_prompt": False})
    assert (forbidden["cached_tokens"], forbidden["miss_reason"]) == (0, "disabled")
