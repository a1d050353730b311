"""Memory budgets hold, what is worth keeping is kept, and everything is counted. Fault kind K9."""
import re

import pytest

import models
from talk import Talk

MIB = 1 << 20
families = pytest.mark.parametrize("model", [models.DEEPSEEK3, models.QWEN3NEXT], ids=lambda m: m.name)


def host(talk):
    return talk.client.get("/cache")["tiers"]["host"]


def state_bytes(pool, model, length):
    """What the cache holds for one prompt of this length."""
    talk = Talk(pool, model, "state_bytes")
    talk.ask(talk.prompts("p", length), n_predict=1)
    return host(talk)["physical_bytes"]


@families
def test_budget_holds_after_many_prompts(pool, model):
    talk = Talk(pool, model, "budget", extra=("--cache-ram", "2"))
    for i in range(24):
        talk.ask(talk.prompts(f"p{i}", 250), 250, at_least=0, n_predict=2)
        assert host(talk)["physical_bytes"] <= host(talk)["max_bytes"] == 2 * MIB
    assert talk.client.get("/cache")["evicted_bytes"] > 0, "the test must have filled the budget"


@pytest.mark.parametrize("model", [models.QWEN3NEXT, models.GPT_OSS], ids=lambda m: m.name)
def test_too_big(pool, model):
    """A state that can never fit is not stored, is counted, and hurts nothing."""
    talk = Talk(pool, model, "too_big", ctx=4096, extra=("--cache-ram", "1"))
    per_token = state_bytes(pool, model, 900) / 900
    length = min(3900, int(2 * MIB / per_token) + 200)
    assert length * per_token > MIB
    prompt = talk.prompts("p", length)
    talk.ask(prompt, n_predict=2)
    assert host(talk)["physical_bytes"] <= MIB
    talk.ask(talk.prompts("small", 100, after=prompt[:1]), 100, at_least=0)
    talk.ask(prompt, len(prompt), at_least=0, n_predict=2)


def test_hidden_ram(pool):
    """The default budget is printed at start, shown in /cache and /metrics, and set by one flag."""
    default = Talk(pool, models.DEEPSEEK3, "hidden_ram")
    limit = host(default)["max_bytes"]
    assert 64 * MIB <= limit <= 4096 * MIB
    assert default.client.gauge("skippy_cache_max_bytes") == limit
    assert re.search(rf"\b{limit // MIB}\b.*Mi?B|{limit / (1 << 30):.1f} Gi?B", default.client.process.log()), (
        default.client.process.log()[:3000])
    small = Talk(pool, models.DEEPSEEK3, "hidden_ram", extra=("--cache-ram", "8"))
    assert host(small)["max_bytes"] == 8 * MIB


def test_write_only(pool):
    """Calls that never read the cache do not fill it: refused embeddings, counting, rendering, dry runs."""
    talk = Talk(pool, models.DEEPSEEK3, "write_only")
    before = host(talk)
    for i in range(20):
        assert talk.client.http.post("/v1/embeddings", json={"input": f"text {i}"}).status_code in (400, 501)
        talk.client.post("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": f"x {i}"}]})
        talk.client.post("/apply-template", {"messages": [{"role": "user", "content": f"x {i}"}]})
        talk.client.post("/cache/lookup", {"prompt": talk.prompts(f"p{i}", 100)})
    assert host(talk) == before
    talk.client.check_counters()


def test_cache_prompt_false_stores_nothing(pool):
    talk = Talk(pool, models.DEEPSEEK3, "no_store")
    before = host(talk)["physical_bytes"]
    for i in range(4):
        talk.ask(talk.prompts(f"p{i}", 150), cache_prompt=False)
    assert host(talk)["physical_bytes"] == before


@families
def test_short_first(pool, model):
    """Leaves go before their base: under pressure the shared head of the chat survives its longer ends."""
    need = state_bytes(pool, model, 400)
    budget = max(2, round(need * 2.5 / MIB))
    talk = Talk(pool, model, "short_first", ctx=2048, extra=("--cache-ram", str(budget)))
    base, tails = talk.prompts("base", 320), talk.prompts.tails(14, 90)
    # a lane of its own must not help: something else runs in between
    for i, tail in enumerate(tails):
        seen = len(base) if i else 0
        talk.ask(base + tail, seen, at_least=talk.model.reach(seen), n_predict=1)
        talk.ask(talk.prompts(f"single{i}", 60, after=base[:1]), 60, at_least=0, n_predict=1)


@families
def test_sweep(pool, model):
    """A batch of one-shot documents does not drive out the chat that was used three times."""
    need = state_bytes(pool, model, 300)
    talk = Talk(pool, model, "sweep", ctx=1024, extra=("--cache-ram", str(max(2, round(need * 4 / MIB)))))
    chat, seen = talk.prompts("a", 200), 0
    for turn in range(3):
        answer = talk.ask(chat, seen)
        seen = talk.known(chat, answer)
        chat = chat + answer.tokens + talk.prompts(f"a{turn}", 15)
    for i in range(32):
        talk.ask(talk.prompts(f"doc{i}", 250, after=chat[:1]), 250, at_least=0, n_predict=1)
    assert talk.client.get("/cache")["evicted_tokens"] > 0
    talk.ask(chat, seen)


@families
def test_shared_head_is_held_once(pool, model):
    """Twelve prompts over one head hold it once."""
    talk = Talk(pool, model, "held_once", ctx=2048)
    head, tails = talk.prompts("head", 640), talk.prompts.tails(12, 20)
    talk.ask(head + tails[0], n_predict=1)
    row = host(talk)["bytes_by_component"]["kv"] / 660
    for tail in tails[1:]:
        talk.ask(head + tail, len(head), n_predict=1)
    tier = host(talk)
    assert tier["known_tokens"] == 640 + 12 * 20
    assert tier["bytes_by_component"]["kv"] <= tier["known_tokens"] * row * 1.02


def test_reset_gives_the_memory_back(pool):
    talk = Talk(pool, models.DEEPSEEK3, "reset")
    prompt = talk.prompts("p", 200)
    talk.ask(prompt)
    assert host(talk)["physical_bytes"] > 0
    talk.client.forget()
    assert host(talk)["physical_bytes"] == 0
    talk.ask(prompt, 0)


def test_resident_memory_is_bounded(pool):
    """Sixty distinct prompts with a small budget: the process does not grow with them."""
    model = models.DEEPSEEK3
    talk = Talk(pool, model, "rss", extra=("--cache-ram", "8"))

    def feed(first, count):
        for i in range(first, first + count):
            talk.client.completion(talk.prompts(f"p{i}", 250), 2)

    feed(0, 20)  # arenas, buffers and the budget itself are filled by then
    settled = talk.client.process.resident_bytes()
    feed(20, 40)
    grown = talk.client.process.resident_bytes() - settled
    assert grown < 16 * MIB, f"grown by {grown / MIB:.1f} MiB"
    talk.client.check_counters()
