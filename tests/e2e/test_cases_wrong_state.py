"""Nothing wrong may come out after a reuse, a branch or a restore. Fault kinds K4, K5, K8, K15.

The list's cases that need injected faults (a decode that fails, a damaged blob) are tests of engine and cache on
the fake runtime; those of saved files, disk tiers, restarts and split models are not about a RAM-only process.
"""
import random

import pytest

import models
from talk import Talk, common_prefix

hybrid = pytest.mark.parametrize("model", models.RECURRENT, ids=lambda m: m.name)
synthetic = pytest.mark.parametrize("model", models.SYNTHETIC, ids=lambda m: m.name)


@pytest.fixture
def talk(pool, model, request):
    return Talk(pool, model, request.function.__name__)


@pytest.mark.parametrize("model", models.SYNTHETIC, ids=lambda m: m.name)
def test_partial_drift(talk):
    """The same branch from the same system text five times over gives the same tokens each round."""
    base = talk.prompts("sys", 90)
    talk.ask(base, n_predict=1)
    prompt = base + talk.prompts("user", 20)
    first = talk.ask(prompt, len(base), n_predict=12)
    for turn in range(4):
        talk.ask(base + talk.prompts(f"between{turn}", 12, after=prompt[len(base):len(base) + 1]), len(base), at_least=0)
        again = talk.repeat(prompt, n_predict=12)
        assert again.tokens == first.tokens or talk.model.margin


@hybrid
def test_rm_ignored(talk):
    """Recurrent memory refuses to be trimmed: the server neither aborts nor goes on from a stale state."""
    prompt = talk.prompts("a", 300)
    talk.ask(prompt, n_predict=20)
    for cut in (200, 64, 63, 1):
        talk.ask(prompt[:cut] + talk.prompts(f"u{cut}", 12, after=prompt[cut:cut + 1]), cut)
    talk.repeat(prompt, n_predict=20)


@pytest.mark.parametrize("model", [models.DEEPSEEK3, models.SMOLLM2], ids=lambda m: m.name)
def test_reuse_head(talk):
    """Later parts of a cached prompt are not shifted together: only the exact prefix is reused."""
    a = talk.prompts("abcdefghj", 90)
    talk.ask(a)
    prompt = a[:20] + a[40:60] + a[70:]
    assert prompt[20] != a[20]
    talk.ask(prompt, 20, at_least=20)


@pytest.mark.parametrize("model", [models.DEEPSEEK3, models.QWEN3NEXT, models.GEMMA3_TINY], ids=lambda m: m.name)
def test_mla_shift(pool, model):
    """The context fills up: a clean stop for length, no shift, and the next request hits its prefix."""
    talk = Talk(pool, model, "mla_shift", ctx=256)
    prompt = talk.prompts("p", 200)
    answer = talk.client.completion(prompt, 500)
    assert answer.raw["stop_type"] == "limit"
    assert 50 <= answer.predicted <= 57 and answer.raw["truncated"] in (True, False)
    talk.repeat(prompt)
    follow = prompt + answer.tokens[:20]
    talk.ask(follow + talk.prompts("u", 5), len(follow), at_least=len(prompt))


@synthetic
def test_defrag(pool, model):
    """Three interleaved sequences, the middle one ends, the first goes on: as if it had been alone."""
    talk = Talk(pool, model, "defrag", lanes=3, ctx=512)
    prompts = talk.prompts.tails(3, 80)
    answers = talk.client.many([lambda p=p, n=n: talk.client.completion(p, n) for p, n in zip(prompts, (30, 5, 30))], 3)
    for prompt, answer, length in zip(prompts, answers, (30, 5, 30)):
        talk.oracle.check(answer, prompt, length)
    follow = prompts[0] + answers[0].tokens + talk.prompts("u", 10)
    talk.ask(follow, len(prompts[0]) + 29)


@synthetic
def test_bangs(talk):
    """Twenty requests with one head and random tails, hot and from host memory by turns: none differs from cold."""
    rng = random.Random("bangs")
    head = talk.prompts("head", 100)
    talk.ask(head)
    tails = talk.prompts.tails(6, 12)
    for i in range(20):
        if rng.random() < 0.3:  # takes the lane over, so the head has to come back from the cache
            talk.ask(talk.prompts(f"other{i % 3}", 30, after=head[:1]), 30, at_least=0, n_predict=2)
        tail = rng.choice(tails)[: rng.randint(1, 12)]
        talk.ask(head + tail, len(head) + 12, at_least=talk.model.reach(len(head)), n_predict=3)


@pytest.mark.parametrize("model", models.WINDOWED, ids=lambda m: m.name)
def test_window_lie(talk):
    """A prompt longer than the window is not served to a short prefix of it unless that state was really kept."""
    prompt = talk.prompts("p", 640)
    talk.ask(prompt, n_predict=2)
    talk.ask(prompt[:31] + talk.prompts("u", 10, after=prompt[31:32]), 31)


@synthetic
def test_host_wrong(talk):
    """Three prompts stored; asked from host memory and again from the lane: all equal the cold run."""
    prompts = talk.prompts.tails(3, 130)
    for prompt in prompts:
        talk.ask(prompt)
    for prompt in prompts:
        for _ in range(2):
            talk.repeat(prompt)


@synthetic
def test_donor_evicted(pool, model):
    """B shares a head with A; A goes for lack of room; B still works, time and again."""
    talk = Talk(pool, model, "donor_evicted", extra=("--cache-ram", "1"))
    head, tails = talk.prompts("c", 128), talk.prompts.tails(2, 100)
    talk.ask(head + tails[0])
    talk.ask(head + tails[1], len(head), at_least=0)
    for i in range(12):
        talk.ask(talk.prompts(f"filler{i}", 200, after=head[:1]), 200, at_least=0, n_predict=1)
    for turn in range(3):
        prompt = head + tails[1] + talk.prompts(f"u{turn}", 10)
        talk.ask(prompt, len(prompt), at_least=0)


@synthetic
def test_random_walk(talk):
    """Prompts grow, are cut, branch and come back at random: every answer is the cold run's."""
    rng = random.Random(talk.model.name)
    texts, words = [[]], talk.prompts("pool", 600)
    for step in range(25):
        base = rng.choice(texts)
        keep = base[: rng.randint(0, len(base))] if rng.random() < 0.5 else base
        at = rng.randrange(500)
        prompt = (keep + words[at: at + rng.randint(1, 90)])[:700]
        seen = max(common_prefix(prompt, t) for t in texts)
        answer = talk.ask(prompt, seen, n_predict=3, at_least=talk.model.reach(min(seen, len(prompt) - 1)))
        texts.append(prompt + answer.tokens[:-1])


