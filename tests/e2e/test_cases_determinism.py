"""The same request gives the same answer, cold or warm, alone or beside others. Fault kind K12."""
import pytest

import models
from talk import Talk

everyone = pytest.mark.parametrize("model", models.ALL, ids=lambda m: m.name)
synthetic = pytest.mark.parametrize("model", models.SYNTHETIC, ids=lambda m: m.name)


@pytest.fixture
def talk(pool, model, request):
    return Talk(pool, model, request.function.__name__, ctx=2048)


@everyone
def test_cold_warm(talk):
    """Three times the same request: three times the same text (first from prefill, then from what was kept)."""
    prompt = talk.prompts("p", 600 if talk.model.synthetic else 130)
    first = talk.ask(prompt, n_predict=16)
    for _ in range(2):
        assert talk.repeat(prompt, n_predict=16).tokens[:1] == first.tokens[:1]


@everyone
def test_first_token_probabilities_do_not_depend_on_the_cache(talk):
    """The repeat samples the very logits the first run had."""
    prompt = talk.prompts("p", 140)
    first = talk.ask(prompt, n_predict=1)
    assert talk.repeat(prompt, n_predict=1).top == first.top


@synthetic
def test_last_token(talk):
    """The whole prompt cached and nothing left to compute: max_tokens 0, then 1, then more."""
    prompt = talk.prompts("p", 200)
    empty = talk.client.completion(prompt, 0)
    assert (empty.text, empty.predicted, empty.prompt_tokens, empty.cached) == ("", 0, 200, 0)
    for length in (1, 0, 5):
        talk.repeat(prompt, length)


@synthetic
def test_kv_changes(talk):
    """A, B, A with a seed and a temperature: both A equal, with the cache and without."""
    a, b = talk.prompts("a", 150), talk.prompts("b", 150)
    options = {"temperature": 0.8, "seed": 11, "ignore_eos": True, "return_tokens": True, "n_predict": 12}

    def ask(prompt, **more):
        return talk.client.post("/completion", {"prompt": prompt, **options, **more})["tokens"]

    runs = [ask(a), ask(b), ask(a), ask(a, cache_prompt=False)]
    assert runs[0] == runs[2] == runs[3] != runs[1]


@synthetic
def test_beside_others_as_alone(pool, model):
    """Greedy tokens do not depend on who else is being served."""
    talk = Talk(pool, model, "beside", lanes=3, ctx=512)
    prompts = talk.prompts.tails(9, 100)
    answers = talk.client.many([lambda p=p: talk.client.completion(p, 12) for p in prompts], at_once=9)
    for prompt, answer in zip(prompts, answers):
        talk.oracle.check(answer, prompt, 12)


@everyone
def test_bit_mode_repeats_bit_for_bit(pool, model):
    """--exactness bit: cold, hot and restored runs have equal probabilities for every token, not only equal tokens."""
    talk = Talk(pool, model, "bit", ctx=512, extra=("--exactness", "bit"))
    prompt, other = talk.prompts("p", 150), talk.prompts("q", 20)
    cold = talk.oracle.answer("completion", prompt, 8)
    for step in range(3):
        answer = talk.client.completion(prompt, 8)
        assert (answer.tokens, answer.top) == (cold.tokens, cold.top), f"run {step}"
        assert answer.cached == 0 if step == 0 else answer.cached >= 128
        talk.client.completion(other, 2)
    branch = prompt[:140] + talk.prompts("u", 20, after=prompt[140:141])
    answer, cold = talk.client.completion(branch, 8), talk.oracle.answer("completion", branch, 8)
    assert (answer.tokens, answer.top) == (cold.tokens, cold.top)
    assert answer.cached == 128


@synthetic
def test_streamed_text_is_the_plain_text(talk):
    prompt = talk.prompts("p", 120)
    plain = talk.ask(prompt, n_predict=10)
    body = {"prompt": prompt, "n_predict": 10, "temperature": 0, "ignore_eos": True}
    assert "".join(e["content"] for e in talk.client.events("/completion", body)) == plain.text
