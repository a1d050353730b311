"""Adapters with their scales are part of what a prefix is: state computed under one is never used under another. K6."""
import pytest

import models
from client import HttpError
from gguf_file import write_lora
from talk import Talk


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    return tuple(str(write_lora(models.LLAMA_TINY.path, folder / f"{name}.gguf", name)) for name in "ab")


@pytest.fixture
def talk(pool, files, request):
    return Talk(pool, models.LLAMA_TINY, request.function.__name__, lora=files)


def adapter(which, scale=1.0):
    return [{"id": which, "scale": scale}]


def test_adapters_change_the_answer(talk):
    """Else the tests below would show nothing."""
    prompt = talk.prompts("p", 100)
    answers = [talk.oracle.answer("completion", prompt, 8, lora=lora).tokens
               for lora in ([], adapter(0), adapter(1), adapter(0, 0.5))]
    assert len({tuple(a) for a in answers}) == 4


def test_lora(talk):
    """One prompt under adapter A, B, none, A at half: nothing is shared, each equals its own cold run; repeats hit."""
    prompt = talk.prompts("p", 100)
    settings = [adapter(0), adapter(1), [], adapter(0, 0.5), adapter(0) + adapter(1), adapter(0) + adapter(1, 0.25)]
    for lora in settings:
        talk.ask(prompt, 0, lora=lora)
    for lora in settings:
        talk.repeat(prompt, lora=lora)


def test_a_request_without_the_field_uses_the_servers_scales(talk):
    """llama-server went on from another adapter's state here."""
    prompt = talk.prompts("p", 100)
    plain = talk.ask(prompt)
    talk.ask(prompt, 0, lora=adapter(0))
    assert talk.repeat(prompt).tokens == plain.tokens
    talk.client.post("/lora-adapters", adapter(0))
    try:
        assert [(a["id"], a["scale"]) for a in talk.client.get("/lora-adapters")] == [(0, 1.0), (1, 0.0)]
        answer = talk.client.completion(prompt)
        talk.oracle.check(answer, prompt, lora=adapter(0))
        assert answer.cached >= len(prompt) - 1, "the same adapters, however they were asked for"
    finally:
        talk.client.post("/lora-adapters", adapter(0, 0.0))
    assert talk.repeat(prompt).tokens == plain.tokens


def test_scale_zero_is_no_adapter(talk):
    prompt = talk.prompts("p", 100)
    talk.ask(prompt)
    talk.repeat(prompt, lora=adapter(0, 0.0) + adapter(1, 0.0))


def test_adapters_at_once_on_two_lanes(pool, files):
    """Requests under different adapters at the same time: each as if alone."""
    talk = Talk(pool, models.LLAMA_TINY, "lora_lanes", lora=files, lanes=3, ctx=512)
    prompt = talk.prompts("p", 80)
    settings = [adapter(0), adapter(1), [], adapter(0), adapter(1), []]
    answers = talk.client.many([lambda l=l: talk.client.completion(prompt, 10, lora=l) for l in settings], at_once=6)
    for lora, answer in zip(settings, answers):
        talk.oracle.check(answer, prompt, 10, lora=lora)
    talk.client.check_counters()


def test_bad_adapter_settings(talk):
    for body in ([{"id": 7, "scale": 1}], [{"id": "x", "scale": 1}], [{"id": 0, "scale": "x"}], {"id": 0}, 5, [{"scale": 1}], [{"id": -1, "scale": 1}],
                 [{"id": 0, "scale": 1e39}]):
        with pytest.raises(HttpError) as caught:
            talk.client.post("/lora-adapters", body)
        assert caught.value.status == 400 and caught.value.error["message"], body
    assert [a["scale"] for a in talk.client.get("/lora-adapters")] == [0.0, 0.0]


def test_adapter_on_from_the_start(pool, files):
    """--lora FILE applies it to requests that say nothing, with scale 1; --lora-scaled with the scale given."""
    talk = Talk(pool, models.LLAMA_TINY, "lora_start", lora=files)
    prompt = talk.prompts("p", 90)
    for flags, lora in ((("--lora", files[1]), adapter(1)), (("--lora-scaled", files[0] + ":0.5"), adapter(0, 0.5))):
        own = pool.get(models.LLAMA_TINY, extra=flags)
        talk.oracle.check(own.completion(prompt), prompt, lora=lora)
