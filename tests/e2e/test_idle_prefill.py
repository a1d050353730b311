"""--idle-prefill: a finished turn is evaluated as the next request will send it, while nothing else is to do."""
import pytest

import models
from prompts import text
from process import poll
from talk import Talk, common_prefix

FLAGS = ("--idle-prefill",)


def history(question="What is here?"):
    return [{"role": "system", "content": text("s", 60)}, {"role": "user", "content": question}]


def ahead(client):
    return client.gauge("skippy_idle_prefills_total")


@pytest.fixture
def template(request):
    return request.path.parent / "data" / "retold.jinja"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", [models.DEEPSEEK3, models.QWEN3NEXT, models.MAMBA2], ids=lambda m: m.name)
@pytest.mark.parametrize("exactness", ["token", "bit"])
def test_the_next_turn_finds_its_past_as_the_template_tells_it(pool, model, exactness, stream, template):
    talk = Talk(pool, model, f"idle-{exactness}-{stream}", ctx=1024, template=template,
                extra=(*FLAGS, "--exactness", exactness))
    client = talk.client
    before = ahead(client)
    body = {"messages": history(f"What is here, {exactness} {stream}?"), "max_tokens": 12, "temperature": 0}
    if stream:
        said = "".join(e["choices"][0]["delta"].get("content") or "" for e in client.events("/v1/chat/completions", body)
                       if e["choices"])
    else:
        said = client.post("/v1/chat/completions", body)["choices"][0]["message"]["content"]
    poll("the turn is evaluated ahead", lambda: ahead(client) > before)
    client.resync()

    turn = [*body["messages"], {"role": "assistant", "content": said}, {"role": "user", "content": "And then?"}]
    prompt = client.rendered(turn)
    other = client.rendered([*turn[:-1], {"role": "user", "content": "Why?"}])
    known = common_prefix(prompt, other)       # up to the new words
    at_least = known if exactness == "token" else known - known % models.CHUNK
    assert at_least > len(client.rendered(body["messages"])) - models.CHUNK
    talk.chat(turn, known, at_least=at_least)


def test_it_is_in_no_requests_numbers(pool):
    talk = Talk(pool, models.DEEPSEEK3, "idle-numbers", ctx=1024, extra=FLAGS)
    client = talk.client
    before, evaluated = ahead(client), client.gauge("skippy_idle_evaluated_tokens_total")
    talk.chat(history("Numbers?"), 0, at_least=0)
    poll("the turn is evaluated ahead", lambda: ahead(client) > before)
    client.check_counters()                    # the server's sums are still those of the answers
    assert client.gauge("skippy_idle_evaluated_tokens_total") > evaluated


def test_off_by_default_and_for_requests_without_cache(pool):
    plain = Talk(pool, models.DEEPSEEK3, "idle-off", ctx=1024)
    plain.chat(history("Off?"))
    assert ahead(plain.client) == 0
    talk = Talk(pool, models.DEEPSEEK3, "idle-numbers", ctx=1024, extra=FLAGS)
    before = ahead(talk.client)
    talk.client.post("/v1/chat/completions", {"messages": history("Uncached?"), "max_tokens": 2, "cache_prompt": False})
    talk.client.post("/v1/chat/completions", {"messages": history("Cached?"), "max_tokens": 2})
    poll("the cached one's turn is evaluated ahead", lambda: ahead(talk.client) > before)
    assert ahead(talk.client) == before + 1
