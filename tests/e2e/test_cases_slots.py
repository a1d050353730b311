"""Lanes are only places to run: whoever lands where, a stored prefix is found. Fault kind K3."""
import pytest

import models
from talk import Talk

some = pytest.mark.parametrize("model", [models.DEEPSEEK3, models.QWEN3NEXT, models.MAMBA2], ids=lambda m: m.name)


@pytest.fixture
def talk(pool, model, request):
    return Talk(pool, model, request.function.__name__)


@pytest.fixture
def two_lanes(pool, model, request):
    return Talk(pool, model, request.function.__name__, lanes=2)


def converse(talk, names, base, turns, **options):
    """The conversations take turns on the server; each finds all of its own past and nothing of another's."""
    text = {name: base + tail for name, tail in zip(names, talk.prompts.tails(len(names), 150))}
    known = dict.fromkeys(names, 0)
    for turn in range(turns):
        for which, name in enumerate(names):
            seen = known[name] or (len(base) if which or turn else 0)
            answer = talk.ask(text[name], seen, **options)
            known[name] = talk.known(text[name], answer)
            text[name] = text[name] + answer.tokens + talk.prompts(f"{name}{turn}", 15)


@some
def test_alt_agents(talk):
    """Two agents with a small common head alternate on one lane; no state of one is used for the other."""
    converse(talk, "AB", talk.prompts("c", 70), 3)


@some
def test_one_slot_thrash(talk):
    """Little similarity, one lane: every return hits."""
    converse(talk, "AB", talk.prompts("c", 40), 4)


@some
def test_more_conversations_than_lanes(two_lanes):
    converse(two_lanes, "ABCDE", two_lanes.prompts("c", 30), 2)


@some
def test_pin_bypass(two_lanes):
    """A lane named by the client does not go round the cache: A, B, A again on lane 0."""
    converse(two_lanes, "AB", two_lanes.prompts("c", 5), 2, id_slot=0)


@some
def test_slot_local(two_lanes):
    """What one lane computed serves a request that lands on the other."""
    talk = two_lanes
    prompt = talk.prompts("a", 300)
    talk.ask(prompt, id_slot=0)
    edited = prompt[:200] + talk.prompts("edit", 40, after=prompt[200:201])
    talk.ask(edited, 200, id_slot=1)
    talk.repeat(prompt, id_slot=1)


@some
def test_small_steal(two_lanes):
    """Three chats that share five tokens on two lanes: each comes back to a hit."""
    talk = two_lanes
    head, tails = talk.prompts("head", 5), talk.prompts.tails(3, 120)
    for i, tail in enumerate(tails):
        talk.ask(head + tail, 5 if i else 0, at_least=0)
    for tail in tails:
        talk.repeat(head + tail)


@pytest.mark.parametrize("model", [models.DEEPSEEK3], ids=lambda m: m.name)
def test_cache_key(talk):
    """A client's cache key is a hint and never maps a prompt onto another one's state."""
    first = talk.prompts("p1", 200)
    second = first[:3] + talk.prompts("p2", 200, after=first[3:4])
    talk.ask(first, prompt_cache_key="k")
    talk.ask(second, 3, prompt_cache_key="k")
    talk.repeat(first, prompt_cache_key="other")


@some
def test_linger(pool, model):
    """Two agents in a closed loop on one lane: all their turns hit, and neither starves."""
    talk = Talk(pool, model, "linger")
    openings = talk.prompts.tails(2, 120)

    def loop(which):
        history, seen, turns = openings[which], 0, []
        for turn in range(5):
            answer = talk.client.completion(history, 3)
            turns.append((history, seen, answer))
            seen = talk.known(history, answer)
            history = history + answer.tokens + talk.prompts(f"{which}/{turn}", 10)
        return turns

    for turns in talk.client.many([lambda w=w: loop(w) for w in range(2)], at_once=2):
        assert len(turns) == 5
        for prompt, seen, answer in turns:
            talk.judge(answer, prompt, seen, 3)
    talk.client.check_counters()


@some
def test_crossing_conversations_never_mix(pool, model):
    """Planted words: each of eight prompts has its own; running at once changes no answer."""
    talk = Talk(pool, model, "planted", lanes=4, ctx=512)
    base, tails = talk.prompts("base", 60), talk.prompts.tails(8, 50)
    prompts = [base + tail for tail in tails]
    for _ in range(2):
        for prompt, answer in zip(prompts, talk.client.many(
                [lambda p=p: talk.client.completion(p, 10) for p in prompts], at_once=8)):
            talk.oracle.check(answer, prompt, 10)
    talk.client.check_counters()


@some
def test_loadstate_par(pool, model):
    """Two stored prefixes, four requests at once: J T J T answer as they do alone."""
    talk = Talk(pool, model, "loadstate_par", lanes=4, ctx=512)
    j, t = talk.prompts("json", 150), talk.prompts("plain", 150)
    for prefix in (j, t):
        talk.client.completion(prefix, 0)
    prompts = [prefix + talk.prompts(f"u{i}", 8) for i, prefix in enumerate([j, t, j, t])]
    answers = talk.client.many([lambda p=p: talk.client.completion(p) for p in prompts], at_once=4)
    for prompt, answer in zip(prompts, answers):
        talk.judge(answer, prompt, len(prompt), at_least=150)
