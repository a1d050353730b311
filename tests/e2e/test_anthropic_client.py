"""The official anthropic client against the running server."""
import anthropic
import pytest

import models

MODEL = "any"
ASK = [{"role": "user", "content": "Name a fruit and its colour."}]
WEATHER = {"name": "get_weather", "description": "Current weather of a city",
           "input_schema": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}},
                            "required": ["city"]}}


@pytest.fixture
def server(pool):
    return pool.get(models.SMOLLM2, ctx=1024, lanes=2)


@pytest.fixture
def client(server):
    return anthropic.Anthropic(base_url=server.process.url, api_key="none", max_retries=0, timeout=120)


def create(client, messages=None, **options):
    # this client sends no sampling parameters of its own any more
    options = {"max_tokens": 12, "extra_body": {"temperature": 0}, "system": "You answer briefly.", **options}
    return client.messages.create(model=MODEL, messages=messages or ASK, **options)


def test_message(client):
    answer = create(client)
    assert answer.type == "message" and answer.role == "assistant" and answer.content[0].type == "text"
    assert answer.stop_reason in ("max_tokens", "end_turn") and answer.content[0].text


def test_usage_splits_cached_and_new_tokens(client):
    """Anthropic's input_tokens do not include what was read from the cache."""
    messages = [{"role": "user", "content": "Name a vegetable that grows under the ground, please."}]
    total = client.messages.count_tokens(model=MODEL, messages=messages, system="You answer briefly.").input_tokens
    first, second = create(client, messages), create(client, messages)
    for usage in (first.usage, second.usage):
        assert usage.input_tokens + usage.cache_read_input_tokens == total
    assert second.usage.cache_read_input_tokens >= total - 1 > first.usage.cache_read_input_tokens
    assert first.content[0].text == second.content[0].text


def test_stream_gives_the_same_text(client):
    plain = create(client)
    with client.messages.stream(model=MODEL, messages=ASK, system="You answer briefly.", max_tokens=12,
                                extra_body={"temperature": 0}) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == plain.content[0].text == final.content[0].text
    assert final.stop_reason == plain.stop_reason
    assert final.usage.output_tokens == plain.usage.output_tokens
    assert final.usage.input_tokens + final.usage.cache_read_input_tokens == (
        plain.usage.input_tokens + plain.usage.cache_read_input_tokens)


def test_stream_events_come_in_order(client):
    kinds = [event.type for event in create(client, stream=True)]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop" and kinds[-2] == "message_delta"
    assert kinds.index("content_block_start") < kinds.index("content_block_delta") < kinds.index("content_block_stop")


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}], ids=["any", "named"])
def test_forced_tool_use(client, choice):
    answer = create(client, tools=[WEATHER], tool_choice=choice, max_tokens=80)
    assert answer.stop_reason == "tool_use"
    use = next(block for block in answer.content if block.type == "tool_use")
    assert use.name == "get_weather" and set(use.input) == {"city"} and use.id


def test_tool_result_turn(client):
    messages = [*ASK, {"role": "assistant", "content": [
        {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Rome"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "18 degrees"}]}]
    assert create(client, messages, tools=[WEATHER]).usage.output_tokens > 0


def test_system_blocks_and_cache_control_are_accepted(client):
    blocks = [{"type": "text", "text": "You answer briefly.", "cache_control": {"type": "ephemeral"}},
              {"type": "text", "text": "You like fruit."}]
    answer = create(client, system=blocks)
    assert answer.content[0].text


def test_stop_sequence(client):
    whole = create(client, max_tokens=16).content[0].text
    stop = whole.split()[2]
    answer = create(client, max_tokens=16, stop_sequences=[stop])
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == stop
    assert answer.content[0].text == whole[: whole.index(stop)]


def test_count_tokens_is_what_a_message_uses(client):
    count = client.messages.count_tokens(model=MODEL, messages=ASK, system="You answer briefly.").input_tokens
    usage = create(client, max_tokens=1).usage
    assert count == usage.input_tokens + usage.cache_read_input_tokens


def test_errors_have_anthropics_form(client):
    bad = [
        {"messages": [{"role": "wizard", "content": "x"}]},
        {"messages": [{"role": "user", "content": "word " * 3000}]},
        {"extra_body": {"temperature": "hot"}},
        {"tools": "x"},
    ]
    for options in bad:
        with pytest.raises(anthropic.BadRequestError) as caught:
            create(client, **options)
        body = caught.value.body
        assert body["type"] == "error" and body["error"]["type"] and body["error"]["message"], options
    assert create(client).content[0].text
