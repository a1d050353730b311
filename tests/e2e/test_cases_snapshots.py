"""Memory that cannot be cut back (recurrent, hybrid) or forgets (windows): reuse must not be lost. Fault kind K1.

Each test is one public report, named as in the list of cases; numbers scaled to seconds.
"""
import pytest

import models
from models import CHUNK
from talk import Talk

windowed = pytest.mark.parametrize("model", models.WINDOWED, ids=lambda m: m.name)
two = pytest.mark.parametrize("model", [models.QWEN3NEXT, models.MAMBA2], ids=lambda m: m.name)
hybrid = pytest.mark.parametrize("model", models.RECURRENT, ids=lambda m: m.name)


@pytest.fixture
def talk(pool, model, request):
    return Talk(pool, model, request.function.__name__, ctx=2048)

@windowed
def test_swa_repeat(talk):
    """A sliding-window model prefilled the same prompt from token 0 both times."""
    prompt = talk.prompts("s", 600)
    first = talk.ask(prompt, n_predict=8)
    again = talk.repeat(prompt, n_predict=8)
    assert again.tokens == first.tokens
    # and far back, over the window's edge: the rows before the branch were kept when they were produced
    for cut in (560, 400, 100, 64, 63):
        talk.ask(prompt[:cut] + talk.prompts(f"u{cut}", 10, after=prompt[cut:cut + 1]), cut, at_least=cut)


def test_swa_on_a_real_model(pool):
    """Gemma 3 with its window of 512, a prompt longer than that: repeat, and back over the window's edge."""
    talk = Talk(pool, models.GEMMA3, "swa_real", ctx=1024)
    prompt = talk.prompts("s", 600)
    talk.ask(prompt)
    talk.repeat(prompt)
    talk.ask(prompt[:40] + talk.prompts("u", 5, after=prompt[40:41]), 40, at_least=40)


@windowed
def test_swa_full(pool, model):
    """With a full-size window cache every position is usable."""
    talk = Talk(pool, model, "swa_full", ctx=1024, extra=("--swa-full",))
    system, questions = talk.prompts("s", 540), talk.prompts.tails(2, 12)
    talk.ask(system + questions[0])
    talk.ask(system + questions[1], len(system), at_least=len(system))


@hybrid
def test_rnn_same(talk):
    """The same prompt four times: one token at most is computed, and nothing more is stored each time."""
    prompt = talk.prompts("p", 400)
    talk.ask(prompt)
    talk.repeat(prompt)
    stored = talk.client.gauge("skippy_cache_snapshots"), talk.client.gauge("skippy_cache_physical_bytes")
    for _ in range(2):
        talk.repeat(prompt)
    assert (talk.client.gauge("skippy_cache_snapshots"), talk.client.gauge("skippy_cache_physical_bytes")) == stored


@two
def test_ckpt_window(talk):
    """After many short turns, a branch far back still finds a state before it."""
    history = talk.prompts("s", 600)
    answer = talk.ask(history)
    for turn in range(10):
        seen = talk.known(history, answer)
        history = history + answer.tokens + talk.prompts(f"u{turn}", 40)
        answer = talk.ask(history, seen)
    talk.ask(history[:360] + talk.prompts("branch", 30, after=history[360:361]), 360)


@two
def test_ckpt_fifo(talk):
    """Twenty tool steps, a long answer, then the history without it: at least half of the prompt is reused."""
    history = talk.prompts("s", 200)
    answer = talk.ask(history, n_predict=1)
    for step in range(20):
        seen = talk.known(history, answer)
        history = history + answer.tokens + talk.prompts(f"step{step}", 20)
        answer = talk.ask(history, seen, n_predict=1)
    long = talk.ask(history, len(history), n_predict=150, at_least=len(history) - 1)
    # the thinking part of the answer is left out of the next turn
    prompt = history + long.tokens[100:] + talk.prompts("u", 20)
    assert prompt[len(history)] != long.tokens[0]
    talk.ask(prompt, len(history), at_least=len(history) - CHUNK)


@hybrid
def test_align_unique(talk):
    """Ten prompts with one head and their own tails: the head is reused from the second on, fully from the third."""
    head, tails = talk.prompts("s", 340), talk.prompts.tails(10, 60)
    talk.ask(head + tails[0])
    talk.ask(head + tails[1], len(head))
    for tail in tails[2:]:
        # the second prompt showed where they part, so a state was kept there
        talk.ask(head + tail, len(head), at_least=len(head))


@pytest.mark.parametrize("model", [models.QWEN3NEXT, models.MAMBA2, models.DEEPSEEK3], ids=lambda m: m.name)
def test_chunk_edge(talk):
    """Prompts that end at, just before or just behind a chunk's end all behave alike."""
    for length in (2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, 2 * CHUNK + 7):
        prompt = talk.prompts(f"n{length}", length)
        talk.ask(prompt, talk_seen(talk, prompt))
        talk.ask(talk.prompts(f"other{length}", 40, after=prompt[:1]), 40, at_least=0)
        talk.repeat(prompt)


def talk_seen(talk, prompt):
    """Prompts of other lengths may share a first word by chance."""
    lookup = talk.client.post("/cache/lookup", {"prompt": prompt})
    assert lookup["cached_tokens"] <= 4
    return lookup["cached_tokens"]


@hybrid
def test_walkback(talk):
    """The last whole shared chunk is not given up: two prompts of four chunks and one more token."""
    head = talk.prompts("p", 4 * CHUNK)
    tails = talk.prompts.tails(2, 1)
    talk.ask(head + tails[0])
    talk.ask(head + tails[1], 4 * CHUNK, at_least=4 * CHUNK)


@two
def test_rederive(talk):
    """States are kept while prefill passes them: another request right behind the answer loses nothing."""
    system = talk.prompts("s", 300)
    tails = talk.prompts.tails(3, 20)
    talk.ask(system + tails[0])
    talk.ask(talk.prompts("other", 100, after=system[:1]))
    talk.ask(system + tails[1], len(system))
    talk.ask(system + tails[2], len(system), at_least=len(system))


@hybrid
def test_half_block(talk):
    """A state's length is where it was taken: turns that end off the grid are continued there, not at a rounded place."""
    history, answer, seen = talk.prompts("p", CHUNK + 36), None, 0
    for turn in range(4):
        answer = talk.ask(history, seen, n_predict=3, at_least=seen)
        seen = talk.known(history, answer)
        history = history + answer.tokens + talk.prompts(f"u{turn}", 36)


@two
def test_last_query(talk):
    """Thinking is kept inside one task and vanishes at the next user message: reuse reaches the first user message."""
    opening = talk.prompts("s+u1", 200)
    history, seen = opening, 0
    answer = talk.ask(history, n_predict=30)
    for step in range(4):
        seen = talk.known(history, answer)
        history = history + answer.tokens + talk.prompts(f"tool{step}", 20)
        answer = talk.ask(history, seen, n_predict=30)
    stripped = opening + answer.tokens[20:] + talk.prompts("u2", 20)
    talk.ask(stripped, len(opening), at_least=len(opening))
