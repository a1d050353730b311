"""What one request asks for stays with it; a stored result is logits, never text. Fault kinds K8, K16."""
import json

import pytest

import models
from client import HttpError
from talk import Talk

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "minimum": 0, "maximum": 9}},
          "required": ["ok", "n"], "additionalProperties": False}


@pytest.fixture(params=[models.DEEPSEEK3, models.QWEN3NEXT], ids=lambda m: m.name)
def talk(pool, request):
    return Talk(pool, request.param, request.function.__name__)


def raw(talk, prompt, **options):
    """The answer's text, and checks that a warm server gives the cold server's."""
    body = {"prompt": prompt, "n_predict": 12, "temperature": 0, **options}
    warm = talk.client.post("/completion", body)
    cold = talk.oracle.client.post("/completion", body)
    assert warm["content"] == cold["content"], options
    return warm


def test_sticky_stop(talk):
    """A stop string, a limit, a grammar of one request do not stay for the next one in its lane."""
    prompt = talk.prompts("p", 100)
    free = raw(talk, prompt)
    words = free["content"].split()
    stopped = raw(talk, prompt, stop=[words[2]])
    assert stopped["stop_type"] == "word" and len(stopped["content"]) < len(free["content"])
    assert raw(talk, prompt, grammar='root ::= "yes"')["content"] == "yes"
    assert raw(talk, prompt, n_predict=2)["tokens_predicted"] == 2
    assert raw(talk, prompt, repeat_penalty=1.9, repeat_last_n=64)["tokens_predicted"] == 12
    again = raw(talk, prompt)
    assert (again["content"], again["stop_type"], again["tokens_predicted"]) == (free["content"], "limit", 12)


def test_cancelled_at_a_stop_then_another(talk):
    """The client goes away in the middle of an answer; the next request runs to its own end."""
    prompt = talk.prompts("p", 100)
    stream = talk.client.events("/completion", {"prompt": prompt, "n_predict": 800, "temperature": 0, "ignore_eos": True})
    for _ in range(3):
        next(stream)
    stream.close()
    talk.client.wait_idle()
    talk.client.resync()
    talk.repeat(prompt, 12)


def test_params_key(talk):
    """Each parameter changed in turn on an exact repeat: the answer is what a cold run with it gives."""
    prompt = talk.prompts("p", 90)
    free = raw(talk, prompt, seed=3)
    first = talk.client.completion(prompt, 1).tokens[0]
    changes = [
        {"n_predict": 3}, {"temperature": 1.3, "seed": 3}, {"temperature": 1.3, "seed": 4}, {"temperature": 1.3, "seed": 3, "top_k": 2},
        {"temperature": 1.3, "seed": 3, "top_p": 0.2}, {"temperature": 1.3, "seed": 3, "min_p": 0.5}, {"stop": [free["content"].split()[1]]},
        {"logit_bias": [[first, False]]}, {"repeat_penalty": 1.8}, {"presence_penalty": 2.0}, {"frequency_penalty": 2.0},
        {"grammar": 'root ::= [a-z ]+'}, {"json_schema": SCHEMA}, {"ignore_eos": True}, {"samplers": ["top_k"], "top_k": 1},
        {"mirostat": 2, "temperature": 1.0, "seed": 5}, {"dry_multiplier": 0.8}, {"xtc_probability": 1.0, "temperature": 1.0, "seed": 6},
    ]
    for change in changes:
        raw(talk, prompt, **{"seed": 3, **change})
    assert raw(talk, prompt, logit_bias=[[first, False]])["content"] != free["content"]
    assert raw(talk, prompt, seed=3)["content"] == free["content"]


def test_schema_cached(talk):
    """A free answer is stored; the same prompt with a schema shares the prefix, not the answer. At every accepted place."""
    messages = [{"role": "user", "content": "Say whether it works."}]
    free = talk.chat(messages, max_tokens=60)
    places = [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}},
        {"response_format": {"type": "json_object", "schema": SCHEMA}},
        {"json_schema": SCHEMA},
    ]
    for place in places:
        answer = talk.client.chat(messages, 60, **place)
        assert answer.cached >= answer.prompt_tokens - 1, place
        value = json.loads(answer.text)
        assert set(value) == {"ok", "n"} and isinstance(value["ok"], bool), place
    # a spelling that is not one is refused, never ignored
    with pytest.raises(HttpError) as caught:
        talk.client.chat(messages, 60, response_format={"type": "json_schema", "schema": SCHEMA})
    assert caught.value.status == 400
    assert talk.chat(messages, free.prompt_tokens, max_tokens=60, at_least=free.prompt_tokens - 1).text == free.text
    native = talk.client.post("/completion", {"prompt": talk.client.rendered(messages), "n_predict": 60, "json_schema": SCHEMA})
    json.loads(native["content"])
    talk.client.resync()


def test_tool_choice_does_not_replay_the_free_answer(talk):
    messages = [{"role": "user", "content": "Call something."}]
    tool = {"type": "function", "function": {"name": "act", "parameters": {
        "type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"]}}}
    talk.client.chat(messages, 40, tools=[tool], tool_choice="none")
    answer = talk.client.post("/v1/chat/completions", {
        "messages": messages, "max_tokens": 60, "temperature": 0, "tools": [tool], "tool_choice": "required"})
    call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call["name"] == "act" and set(json.loads(call["arguments"])) == {"n"}
    talk.client.resync()
    assert not talk.client.chat(messages, 40, tools=[tool], tool_choice="none").raw["choices"][0]["message"].get("tool_calls")


def test_key_surface(talk):
    """Unknown fields change nothing: the prefix is reused and the answer is the cold run's."""
    prompt = talk.prompts("p", 90)
    free = raw(talk, prompt)
    odd = raw(talk, prompt, some_new_field={"a": [1, 2]}, enable_magic=True)
    assert odd["content"] == free["content"] and odd["timings"]["cache_n"] >= len(prompt) - 1


def test_grammar_holds_from_the_first_token_of_a_full_hit(talk):
    """The first token of an exact repeat comes from stored logits and still obeys the request's own grammar."""
    prompt = talk.prompts("p", 90)
    talk.client.completion(prompt, 1)
    for word in ("north", "south"):
        answer = talk.client.post("/completion", {"prompt": prompt, "n_predict": 8, "grammar": f'root ::= "{word}"'})
        assert answer["content"] == word and answer["timings"]["cache_n"] >= len(prompt) - 1


def test_n_choices_differ_by_seed_and_share_the_prompt(talk):
    messages = [{"role": "user", "content": "Tell me something."}]
    total = len(talk.client.rendered(messages))
    before = talk.client.counters()
    answer = talk.client.post("/v1/chat/completions", {"messages": messages, "max_tokens": 8, "n": 3, "temperature": 1.5, "seed": 1})
    after = talk.client.counters()
    assert len({c["message"]["content"] for c in answer["choices"]}) > 1
    assert answer["usage"]["prompt_tokens"] == total
    evaluated = after["llamacpp:prompt_tokens_total"] - before["llamacpp:prompt_tokens_total"]
    assert total <= evaluated + 0 and evaluated <= total + 2, "the prompt is computed once for all choices"


def test_ctx_reload(talk):
    """A context size in a request reloads nothing and loses nothing."""
    prompt = talk.prompts("p", 90)
    talk.ask(prompt)
    for size in (2048, 8192, 2048):
        answer = talk.client.post("/completion", {"prompt": prompt, "n_predict": 2, "temperature": 0, "num_ctx": size,
                                                  "options": {"num_ctx": size}})
        assert answer["timings"]["cache_n"] >= len(prompt) - 1


def test_plp(talk):
    """Prompt logprobs (echo) are refused or answered whole, never half."""
    response = talk.client.http.post("/v1/completions", json={"prompt": "One two three", "max_tokens": 1, "echo": True, "logprobs": 2})
    assert response.status_code in (200, 400, 501)
    if response.status_code == 200:
        logprobs = response.json()["choices"][0]["logprobs"]
        text = response.json()["choices"][0]["text"]
        assert text.startswith("One two three") and len(logprobs["tokens"]) == len(logprobs["token_logprobs"])
