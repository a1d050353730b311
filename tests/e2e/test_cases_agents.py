"""Clients and templates that change the prefix: bytes are honoured, and the server names where it parted. Fault kind K2."""
import pytest

import models
from prompts import text
from talk import Talk, common_prefix

TOOLS = [{"type": "function", "function": {
    "name": f"tool_{name}", "description": f"Does {name}.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "edits": {"type": "integer"}}}}}
    for name in ("alpha", "beta", "gamma")]


def user(content):
    return {"role": "user", "content": content}


def system(content):
    return {"role": "system", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


@pytest.fixture(params=[models.DEEPSEEK3, models.QWEN3NEXT], ids=lambda m: m.name)
def talk(pool, request):
    return Talk(pool, request.param, request.function.__name__, ctx=2048)


@pytest.fixture
def tools_talk(pool, request):
    """A template that shows its tools to the model."""
    template = request.path.parent / "data" / "tools.jinja"
    return Talk(pool, models.DEEPSEEK3, request.function.__name__, ctx=2048, template=template)


def test_chat_turns_reuse_the_whole_past(talk):
    messages, seen = [system(text("s", 60)), user("What is here?")], 0
    before = []
    for turn in range(3):
        prompt = talk.client.rendered(messages)
        seen = common_prefix(before, prompt)
        # the last token of an answer was sampled, not computed
        answer = talk.chat(messages, seen, max_tokens=8, at_least=talk.model.reach(max(0, seen - 1)))
        before = prompt + talk.client.tokenize(answer.text, add_special=False)
        messages = [*messages, assistant(answer.text), user(f"And more of it, {turn}?")]


def test_questions_behind_one_system_text(talk):
    """The second question resumes where its own words begin, also where state cannot be cut back."""
    def messages(question):
        return [system(text("s", 90)), user(question)]

    first = talk.client.rendered(messages("Why is the sky blue?"))
    second = talk.client.rendered(messages("Name a large river."))
    parted = common_prefix(first, second)
    assert talk.model.any_position or parted % models.CHUNK > 4   # the grid would not do
    talk.chat(messages("Why is the sky blue?"))
    talk.chat(messages("Name a large river."), parted, at_least=parted)


def test_an_edited_turn(talk):
    """The last question put otherwise: all that precedes it is reused at once."""
    history = [system(text("s", 60)), user("What is here?"), assistant("A short text of ours."), user("Shorter, please!")]
    edited = [*history[:-1], user("Longer, please!")]
    talk.chat(history)
    parted = common_prefix(talk.client.rendered(history), talk.client.rendered(edited))
    talk.chat(edited, parted, at_least=parted)


def test_billing_line(talk):
    """A checksum line at the head of the system text: what precedes it is reused, and the place is named."""
    def messages(tag):
        return [system(f"tag: v1; h={tag};" + text("billing", 150)), user("Go on.")]

    talk.chat(messages("aa11"))
    first, second = (talk.client.rendered(messages(tag)) for tag in ("aa11", "bb22"))
    parted = common_prefix(first, second)
    lookup = talk.client.post("/cache/lookup", {"messages": messages("bb22")})
    assert lookup["first_different"] == parted and lookup["prompt_tokens"] == len(second)
    # on recurrent models the nearest state may lie before that place, which is then the reason given
    assert lookup["miss_reason"] in ("diverged", "no_boundary_state")
    assert talk.model.any_position is False or str(parted) in lookup["explanation"]
    assert lookup["text_at_first_different"]["after"].startswith(talk.client.post(
        "/detokenize", {"tokens": second[parted: parted + 1]})["content"])
    answer = talk.chat(messages("bb22"), parted, at_least=parted if talk.model.any_position else 0)
    assert answer.skippy["first_different"] == parted
    # both variants are kept: flipping back costs nothing
    talk.chat(messages("aa11"), len(first), at_least=len(first) - 1)
    talk.chat(messages("bb22"), len(second), at_least=len(second) - 1)


def test_tool_shuffle(tools_talk):
    """The tool list in another order: reuse ends at the list, the answer is that of the cold run."""
    talk = tools_talk
    messages = [system("You are a helper."), user("Use a tool on this.")]
    shuffled = [TOOLS[2], TOOLS[0], TOOLS[1]]
    first, second = talk.client.rendered(messages, tools=TOOLS), talk.client.rendered(messages, tools=shuffled)
    parted = common_prefix(first, second)
    assert 0 < parted < min(len(first), len(second))
    talk.chat(messages, tools=TOOLS)
    talk.chat(messages, parted, at_least=parted, tools=shuffled)
    talk.chat(messages, len(first), at_least=len(first) - 1, tools=TOOLS)


def test_args_order(tools_talk):
    """Arguments of a replayed tool call keep the order the client sends, so the generated text is found again."""
    talk = tools_talk

    def messages(arguments):
        call = {"id": "c1", "type": "function", "function": {"name": "tool_alpha", "arguments": arguments}}
        return [user("Use a tool."), {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "done"}]

    rendered = [talk.client.post("/apply-template", {"messages": messages(a), "tools": TOOLS})["prompt"]
                for a in ('{"path": "x", "edits": 1}', '{"edits": 1, "path": "x"}')]
    assert rendered[0].index('"path"', rendered[0].index("<tool_call>\n{\"name\": \"tool_alpha\"")) < rendered[0].rindex('"edits"')
    assert rendered[1].rindex('"path"') > rendered[1].rindex('"edits"')
    talk.chat(messages('{"path": "x", "edits": 1}'), tools=TOOLS)
    length = len(talk.client.rendered(messages('{"path": "x", "edits": 1}'), tools=TOOLS))
    talk.chat(messages('{"path": "x", "edits": 1}'), length, at_least=length - 1, tools=TOOLS)


def test_two_system(talk):
    """Three system blocks through both API styles: the same tokens, so the second route finds everything."""
    blocks = ["You are kind.", text("two_system", 60), "You are brief."]
    chat = talk.chat([*[system(b) for b in blocks], user("Hello there.")])
    body = {"system": [{"type": "text", "text": b} for b in blocks], "messages": [user("Hello there.")],
            "max_tokens": 6, "temperature": 0}
    usage = talk.client.post("/v1/messages", body)["usage"]
    total = usage["input_tokens"] + usage["cache_read_input_tokens"]
    # The reference renders three system messages where the Messages API has one text: the two styles may differ in
    # the separators between blocks. What is demanded is that each style hits its own repeat, and that one block
    # renders alike on both routes.
    again = talk.client.post("/v1/messages", body)["usage"]
    assert again["input_tokens"] + again["cache_read_input_tokens"] == total
    assert again["cache_read_input_tokens"] >= total - 1
    talk.client.resync()
    one = [system(blocks[1]), user("Hello again.")]
    answer = talk.chat(one, chat.prompt_tokens, at_least=0)
    usage = talk.client.post("/v1/messages", {"system": blocks[1], "messages": [user("Hello again.")], "max_tokens": 6,
                                              "temperature": 0})["usage"]
    assert usage["cache_read_input_tokens"] >= answer.prompt_tokens - 1
    assert usage["cache_read_input_tokens"] + usage["input_tokens"] == answer.prompt_tokens


def test_routes_share_one_prefix(talk):
    """Chat, responses and a rendered text prompt: one rendering, one stored prefix."""
    messages = [system(text("routes", 60)), user("Hello there.")]
    total = talk.chat(messages).prompt_tokens
    responses = talk.client.post("/v1/responses", {
        "instructions": messages[0]["content"], "input": "Hello there.", "max_output_tokens": 4, "temperature": 0})
    usage = responses["usage"]
    assert (usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"] >= total - 1) == (total, True)
    talk.client.resync()
    talk.repeat(talk.client.rendered(messages))


def test_clock(talk):
    """Rendering twice within a moment gives the same tokens."""
    messages = [user("What day is it?")]
    assert talk.client.rendered(messages) == talk.client.rendered(messages)


def test_warm_prefix(talk):
    """A client warms system text and tools with max_tokens 0; the first message of a session then hits."""
    base = [system(text("warm", 150))]
    warmed = talk.chat([*base, user("x")], max_tokens=0)
    assert warmed.predicted == 0
    first, second = talk.client.rendered([*base, user("x")]), talk.client.rendered([*base, user("Hello there.")])
    shared = common_prefix(first, second)
    talk.chat([*base, user("Hello there.")], shared)


def test_think_strip(talk):
    """The client drops part of an answer from the history: reuse reaches the start of that message."""
    opening = [system(text("think", 80)), user("Think, then answer.")]
    answer = talk.chat(opening, max_tokens=30)
    turn = [*opening, assistant(answer.text[len(answer.text) // 2:]), user("Next.")]
    rendered = talk.client.rendered(turn)
    prompt = talk.client.rendered(opening)
    shared = common_prefix(prompt + talk.client.tokenize(answer.text, add_special=False), rendered)
    assert shared >= len(prompt) - 8
    talk.chat(turn, shared)
