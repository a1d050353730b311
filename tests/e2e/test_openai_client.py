"""The official openai client against the running server."""
import json

import openai
import pytest
from pydantic import BaseModel

import models

SYSTEM = {"role": "system", "content": "You answer in one short sentence."}
ASK = [SYSTEM, {"role": "user", "content": "Name a fruit and its colour."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]},
    },
}
TIME = {
    "type": "function",
    "function": {"name": "get_time", "parameters": {"type": "object", "properties": {"zone": {"type": "integer"}},
                                                    "required": ["zone"]}},
}
# SmolLM2's own template knows no tools; chatml as llama.cpp ships it does not either, Hermes' does.
MODEL = "any"


@pytest.fixture
def server(pool):
    return pool.get(models.SMOLLM2, ctx=1024, lanes=2)


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url=server.process.url + "/v1", api_key="none", max_retries=0, timeout=120)


def chat(client, messages=None, **options):
    options = {"max_tokens": 12, "temperature": 0, **options}
    return client.chat.completions.create(model=MODEL, messages=messages or ASK, **options)


def check_usage(usage):
    assert usage.prompt_tokens > 0 and usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 0 <= usage.prompt_tokens_details.cached_tokens <= usage.prompt_tokens


def test_chat(client):
    first, second = chat(client), chat(client)
    assert first.object == "chat.completion" and first.choices[0].message.role == "assistant"
    assert first.choices[0].finish_reason in ("length", "stop") and first.choices[0].message.content
    assert second.choices[0].message.content == first.choices[0].message.content
    check_usage(first.usage)
    assert second.usage.prompt_tokens == first.usage.prompt_tokens
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 1


def test_stream_gives_the_same_text_and_usage_last(client):
    plain = chat(client)
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == plain.choices[0].message.content
    assert chunks[-1].choices == [] and chunks[-1].usage.prompt_tokens == plain.usage.prompt_tokens
    check_usage(chunks[-1].usage)
    finishes = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    assert finishes == [plain.choices[0].finish_reason]
    assert len({c.id for c in chunks}) == 1


def test_stream_without_usage_has_none(client):
    assert all(c.usage is None for c in chat(client, stream=True))


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_time"}}],
                         ids=["required", "named"])
def test_forced_tool_call(client, choice):
    """Honoured on a template that knows no tools."""
    answer = chat(client, tools=[WEATHER, TIME], tool_choice=choice, max_tokens=80)
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "tool_calls" and len(message.tool_calls) >= 1
    call = message.tool_calls[0]
    assert call.id and call.type == "function"
    assert call.function.name == "get_time" if choice != "required" else call.function.name in ("get_time", "get_weather")
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == ({"zone"} if call.function.name == "get_time" else {"city"})


def test_forced_tool_call_streams_the_same_call(client):
    plain = chat(client, tools=[WEATHER], tool_choice="required", max_tokens=80).choices[0].message.tool_calls[0]
    deltas = [c.choices[0].delta for c in chat(client, tools=[WEATHER], tool_choice="required", max_tokens=80, stream=True)
              if c.choices]
    calls = [call for d in deltas for call in d.tool_calls or []]
    assert {c.index for c in calls} == {0}
    assert "".join(c.function.name or "" for c in calls) == plain.function.name
    assert "".join(c.function.arguments or "" for c in calls) == plain.function.arguments


def test_tools_auto_and_none(client):
    for choice in ("auto", "none"):
        answer = chat(client, tools=[WEATHER], tool_choice=choice)
        assert answer.choices[0].message.content or answer.choices[0].message.tool_calls
        if choice == "none":
            assert not answer.choices[0].message.tool_calls


def test_tool_result_turn(client):
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}
    messages = [*ASK, {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "18 degrees"}]
    answer = chat(client, messages, tools=[WEATHER])
    assert answer.choices[0].message.content


class Fruit(BaseModel):
    name: str
    ripe: bool


def test_json_schema_by_pydantic(client):
    """The client's own parse() helper."""
    schema_limits = Fruit.model_json_schema()
    assert schema_limits["required"] == ["name", "ripe"]
    answer = client.chat.completions.parse(
        model=MODEL, messages=ASK, response_format=Fruit, max_tokens=120, temperature=0)
    assert isinstance(answer.choices[0].message.parsed, Fruit)


def test_json_object(client):
    answer = chat(client, response_format={"type": "json_object"}, max_tokens=60,
                  messages=[{"role": "user", "content": 'Reply with {"ok": true} only.'}])
    text = answer.choices[0].message.content
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(text), dict)
    else:
        assert text.lstrip().startswith("{")


def test_logprobs(client):
    answer = chat(client, logprobs=True, top_logprobs=3, max_tokens=5)
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens or len(entries) == 5
    for entry in entries:
        assert len(entry.top_logprobs) == 3
        best = [t.logprob for t in entry.top_logprobs]
        assert best == sorted(best, reverse=True) and all(p <= 0 for p in best)
        assert entry.token == entry.top_logprobs[0].token, "greedy picks the most likely"
        assert bytes(entry.bytes).decode(errors="replace")


def test_logprobs_are_the_same_from_the_cache(client):
    def probabilities():
        entries = chat(client, logprobs=True, top_logprobs=2, max_tokens=1).choices[0].logprobs.content
        return [(t.token, round(t.logprob, 4)) for t in entries[0].top_logprobs]

    assert probabilities() == probabilities() == probabilities()


def test_n_choices_from_one_prompt(client):
    answer = chat(client, n=2, temperature=1.0, seed=7)
    assert [c.index for c in answer.choices] == [0, 1]
    assert all(c.message.content for c in answer.choices)
    check_usage(answer.usage)
    greedy = chat(client, n=2)
    assert greedy.choices[0].message.content == greedy.choices[1].message.content
    assert answer.usage.prompt_tokens == greedy.usage.prompt_tokens


def test_stop_string_is_cut_off(client):
    whole = chat(client, max_tokens=16).choices[0].message.content
    stop = whole.split()[2]
    answer = chat(client, max_tokens=16, stop=[stop])
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content == whole[: whole.index(stop)]


def test_seed_decides(client):
    def text(seed):
        return chat(client, temperature=1.5, seed=seed, max_tokens=12).choices[0].message.content

    assert text(1) == text(1)
    assert len({text(seed) for seed in range(1, 7)}) > 1


def test_max_tokens_limits(client):
    answer = chat(client, max_tokens=3)
    assert answer.usage.completion_tokens == 3 and answer.choices[0].finish_reason == "length"
    again = client.chat.completions.create(model=MODEL, messages=ASK, max_completion_tokens=3, temperature=0)
    assert again.choices[0].message.content == answer.choices[0].message.content


def test_logit_bias_forbids_a_token(client, server):
    first = chat(client, max_tokens=1, logprobs=True, top_logprobs=1).choices[0].logprobs.content[0].token
    token = server.tokenize(first, add_special=False)
    assert len(token) == 1
    other = chat(client, max_tokens=1, logit_bias={str(token[0]): -100})
    assert other.choices[0].message.content != first


def test_completions(client):
    answer = client.completions.create(model=MODEL, prompt="One, two, three,", max_tokens=4, temperature=0)
    assert answer.object == "text_completion" and answer.choices[0].text
    check_usage(answer.usage)
    again = client.completions.create(model=MODEL, prompt="One, two, three,", max_tokens=4, temperature=0, stream=True)
    assert "".join(c.choices[0].text for c in again if c.choices) == answer.choices[0].text


def test_completions_of_several_prompts(client):
    prompts = ["One, two, three,", "Monday, Tuesday,"]
    both = client.completions.create(model=MODEL, prompt=prompts, max_tokens=3, temperature=0)
    single = [client.completions.create(model=MODEL, prompt=p, max_tokens=3, temperature=0) for p in prompts]
    assert [c.text for c in sorted(both.choices, key=lambda c: c.index)] == [s.choices[0].text for s in single]


def test_completions_echo_tokens_as_prompt(client, server):
    tokens = server.tokenize("One, two, three,")
    by_text = client.completions.create(model=MODEL, prompt="One, two, three,", max_tokens=3, temperature=0)
    by_tokens = client.completions.create(model=MODEL, prompt=tokens, max_tokens=3, temperature=0)
    assert by_text.choices[0].text == by_tokens.choices[0].text
    assert by_tokens.usage.prompt_tokens_details.cached_tokens >= len(tokens) - 1


def test_responses(client):
    def respond(**options):
        return client.responses.create(model=MODEL, input="Name a fruit.", instructions="Answer briefly.",
                                       max_output_tokens=10, temperature=0, **options)

    first, second = respond(), respond()
    assert first.output_text and first.output_text == second.output_text
    assert first.usage.input_tokens == second.usage.input_tokens > 0
    assert second.usage.input_tokens_details.cached_tokens >= second.usage.input_tokens - 1
    events = list(respond(stream=True))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == first.output_text


def test_models(client):
    listed = client.models.list().data
    assert len(listed) == 1 and listed[0].object == "model" and listed[0].id


def test_bad_requests_are_bad_request_errors(client):
    bad = [
        {"messages": [{"role": "wizard", "content": "x"}]},
        {"messages": "hello"},
        {"messages": [{"role": "user", "content": "word " * 3000}]},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}},
        {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "no_such_tool"}}},
        {"temperature": "hot"},
        {"n": -1},
    ]
    for options in bad:
        with pytest.raises(openai.BadRequestError) as caught:
            chat(client, **options)
        assert caught.value.body["message"] and caught.value.body["type"], options
    assert chat(client).choices[0].message.content


def test_prompt_over_the_context_names_both_numbers(client):
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, [{"role": "user", "content": "word " * 3000}])
    assert caught.value.body["type"] == "exceed_context_size_error"
    assert caught.value.body["n_prompt_tokens"] > 3000 and caught.value.body["n_ctx"] == 1024
    assert "1024" in caught.value.body["message"]


def test_unknown_path_is_not_found(client):
    with pytest.raises(openai.NotFoundError):
        client.post("/no/such/thing", cast_to=object, body={})


def test_images_and_embeddings_are_refused_clearly(client):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    with pytest.raises(openai.APIStatusError) as caught:
        chat(client, [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}])
    assert caught.value.status_code in (400, 501) and "image" in str(caught.value.body).lower()
    with pytest.raises(openai.APIStatusError) as caught:
        client.embeddings.create(model=MODEL, input="x")
    assert caught.value.status_code in (400, 501) and "embedding" in str(caught.value.body).lower()
