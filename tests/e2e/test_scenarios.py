"""Every client habit on every family: the cold run's text, and nothing computed twice."""
import pytest

import models
from client import completion_body
from talk import Talk


@pytest.fixture(params=models.ALL, ids=lambda m: m.name)
def model(request):
    return request.param


@pytest.fixture
def talk(pool, model, request):
    return Talk(pool, model, request.function.__name__)


def test_append_turns(talk):
    history, seen = talk.prompts("system", talk.size), 0
    for turn in range(4):
        answer = talk.ask(history, seen)
        seen = talk.known(history, answer)
        history = history + answer.tokens + talk.prompts(f"user{turn}", 20)


def test_exact_repeat(talk):
    prompt = talk.prompts("p", talk.size)
    first = talk.ask(prompt)
    for _ in range(3):
        assert talk.repeat(prompt).tokens == first.tokens or talk.model.margin


def test_rewind_five(talk):
    prompt = talk.prompts("p", talk.size)
    talk.ask(prompt)
    cut = len(prompt) - 5
    talk.ask(prompt[:cut] + talk.prompts("u", 12, after=prompt[cut : cut + 1]), cut)


def test_rewind_to_the_middle(talk):
    prompt = talk.prompts("p", talk.size)
    talk.ask(prompt)
    cut = len(prompt) // 2
    talk.ask(prompt[:cut] + talk.prompts("u", 30, after=prompt[cut : cut + 1]), cut)


def test_rewind_without_new_text(talk):
    prompt = talk.prompts("p", talk.size)
    talk.ask(prompt)
    cut = len(prompt) - 40
    talk.ask(prompt[:cut], cut)


def test_branch(talk):
    base, tails = talk.prompts("base", talk.size), talk.prompts.tails(3, 30)
    talk.ask(base + tails[0])
    for tail in tails[1:]:
        talk.ask(base + tail, len(base))
    for tail in tails:
        talk.repeat(base + tail)


def test_alternate(talk):
    a = talk.prompts("a", talk.size)
    b = talk.prompts("b", talk.size, after=a[:1])
    known = {"a": 0, "b": 0}
    text = {"a": a, "b": b}
    for turn in range(3):
        for name in "ab":
            answer = talk.ask(text[name], known[name])
            known[name] = talk.known(text[name], answer)
            text[name] = text[name] + answer.tokens + talk.prompts(f"{name}{turn}", 10)


def test_unrelated_between(talk):
    prompt = talk.prompts("p", talk.size)
    talk.ask(prompt)
    for i in range(3):
        talk.ask(talk.prompts(f"other{i}", 90, after=prompt[:1]))
    talk.repeat(prompt)


def test_max_tokens_zero_and_one(talk):
    prompt = talk.prompts("p", talk.size)
    warm = talk.client.completion(prompt, 0)
    assert (warm.text, warm.predicted, warm.prompt_tokens) == ("", 0, len(prompt))
    talk.repeat(prompt, 1)
    talk.repeat(prompt, 0)
    talk.repeat(prompt, 6)


def test_cache_prompt_false_neither_reads_nor_writes(talk):
    prompt = talk.prompts("p", talk.size)
    talk.ask(prompt, 0, cache_prompt=False)
    talk.ask(prompt, 0)
    talk.ask(prompt, 0, cache_prompt=False)
    talk.repeat(prompt)


def test_fan_out_computes_the_document_once(pool, model):
    """Twelve questions on one document, four at a time."""
    talk = Talk(pool, model, "fan_out", lanes=4, ctx=512)
    document, questions = talk.prompts("document", talk.size), talk.prompts.tails(12, 15)
    prompts = [document + question for question in questions]
    answers = talk.client.many([lambda p=p: talk.client.completion(p) for p in prompts], at_once=4)
    talk.client.check_counters()
    # the real models are slow: of theirs one of each four is compared with its cold run
    for prompt, answer in list(zip(prompts, answers))[:: 1 if model.synthetic else 4]:
        talk.oracle.check(answer, prompt)
    ideal = len(document) + sum(len(q) for q in questions)
    spare = 0 if model.any_position else 11 * models.CHUNK
    evaluated = sum(a.evaluated for a in answers)
    assert ideal <= evaluated <= ideal + spare, [a.cached for a in answers]


def test_parallel_conversations(pool, model):
    """Three conversations on two lanes: each finds its own history, none another's."""
    talk = Talk(pool, model, "parallel", lanes=2, ctx=512)
    openings = talk.prompts.tails(3, talk.size // 2)

    def converse(which):
        history, seen, turns = openings[which], 0, []
        for turn in range(3):
            answer = talk.client.completion(history)
            turns.append((history, seen, answer))
            seen = talk.known(history, answer)
            history = history + answer.tokens + talk.prompts(f"{which}/{turn}", 12)
        return turns

    for turns in talk.client.many([lambda w=w: converse(w) for w in range(3)], at_once=3):
        for prompt, seen, answer in turns:
            talk.judge(answer, prompt, seen)
    talk.client.check_counters()


def test_disconnect_in_prefill_and_retry(talk):
    prompt = talk.prompts("p", 6 * models.CHUNK + 20)
    body = completion_body(prompt, return_progress=True)
    finished = 0
    stream = talk.client.events("/completion", body)
    for event in stream:
        finished = event["prompt_progress"]["processed"]
        if finished >= 2 * models.CHUNK:
            break
    stream.close()
    talk.client.wait_idle()
    talk.client.resync()
    talk.ask(prompt, len(prompt), at_least=talk.model.reach(min(finished, len(prompt) - 1)))
    talk.repeat(prompt)
