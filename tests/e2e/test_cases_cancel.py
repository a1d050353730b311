"""Clients that go away: what was computed stays, what was queued costs nothing. Fault kind K13."""
import http.client
import json
import threading

import pytest

import models
from client import HttpError, completion_body
from models import CHUNK
from process import poll
from talk import Talk

families = pytest.mark.parametrize("model", [models.QWEN3NEXT, models.DEEPSEEK3, models.MAMBA2], ids=lambda m: m.name)


def disconnect_at(talk, prompt, tokens):
    """Starts a request, hangs up once so many prompt tokens are processed; returns how many were, and how many
    it began with."""
    stream = talk.client.events("/completion", completion_body(prompt, return_progress=True))
    done = begun = None
    for event in stream:
        if "prompt_progress" not in event:
            break
        progress = event["prompt_progress"]
        begun, done = progress["cache"], progress["processed"]
        if done >= tokens:
            break
    stream.close()
    talk.client.wait_idle()
    talk.client.resync()
    return begun, done


@families
def test_retry_loop(pool, model):
    """The client hangs up at 55 percent, retries, hangs up again, retries: each try starts where the last one ended."""
    talk = Talk(pool, model, "retry_loop", ctx=4096)
    prompt = talk.prompts("p", 2000)
    begun, done = disconnect_at(talk, prompt, 1100)
    assert begun == 0 and done >= 1100
    again, further = disconnect_at(talk, prompt, 1700)
    assert again >= min(done, 1999) - CHUNK and further >= 1700
    talk.ask(prompt, len(prompt), at_least=min(further, 1999) - CHUNK)


def test_retry_loop_on_a_real_model(pool):
    """The same where a chunk takes time: the disconnect is seen within a chunk or two, not at the prompt's end."""
    talk = Talk(pool, models.SMOLLM2, "retry_real", ctx=1024)
    prompt = talk.prompts("p", 700)
    before = talk.client.counters()["llamacpp:n_decode_total"]
    begun, done = disconnect_at(talk, prompt, 128)
    decodes = talk.client.counters()["llamacpp:n_decode_total"] - before
    assert done < 700 and decodes < 700 // CHUNK, "it computed on for a client that had gone"
    answer = talk.client.completion(prompt, 2)
    assert answer.cached >= done


@families
def test_publish_early(pool, model):
    """Abort in the second chunk of six, then at once the same prompt and one that shares three chunks."""
    talk = Talk(pool, model, "publish_early", lanes=2)
    prompt = talk.prompts("p", 6 * CHUNK)
    other = prompt[:3 * CHUNK] + talk.prompts("u", 30, after=prompt[3 * CHUNK:3 * CHUNK + 1])
    stream = talk.client.events("/completion", completion_body(prompt, return_progress=True))
    for event in stream:
        if event["prompt_progress"]["processed"] >= 2 * CHUNK:
            break
    stream.close()
    answers = talk.client.many([lambda p=p: talk.client.completion(p) for p in (prompt, other)], at_once=2)
    for ask, answer in zip((prompt, other), answers):
        talk.oracle.check(answer, ask)
    talk.client.wait_idle()
    talk.client.resync()
    talk.repeat(other)


class Busy:
    """Keeps the only lane busy with a long answer until closed."""

    def __init__(self, talk, length=3000):
        self._stream = talk.client.events("/completion", {
            "prompt": talk.prompts("busy", 20), "n_predict": length, "temperature": 0, "ignore_eos": True})
        next(self._stream)
        poll("it runs and nothing waits", lambda: talk.client.gauge("llamacpp:requests_processing") == 1
             and talk.client.gauge("llamacpp:requests_deferred") == 0)

    def close(self):
        self._stream.close()


def test_gone_queue(pool):
    """One lane busy, five queued, four of them hang up: only one of the five runs."""
    talk = Talk(pool, models.SMOLLM2, "gone_queue", ctx=1024)
    client, prompts = talk.client, talk.prompts.tails(5, 24)
    busy = Busy(talk)
    base = client.counters()
    connections, answered = [], []
    kept = threading.Thread(target=lambda: answered.append(client.completion(prompts[0], 2)))
    kept.start()
    poll("one request waits", lambda: client.gauge("llamacpp:requests_deferred") == 1)
    for prompt in prompts[1:]:
        connection = http.client.HTTPConnection("127.0.0.1", client.process.port, timeout=60)
        connection.request("POST", "/completion", json.dumps(completion_body(prompt, 2)), {"Content-Type": "application/json"})
        connections.append(connection)
    poll("five requests wait", lambda: client.gauge("llamacpp:requests_deferred") == 5)
    for connection in connections:
        connection.close()
    poll("the four that hung up have left the queue", lambda: client.gauge("llamacpp:requests_deferred") == 1)
    busy.close()
    kept.join()
    client.wait_idle()
    grown = client.counters()["llamacpp:prompt_tokens_total"] - base["llamacpp:prompt_tokens_total"]
    # the busy request's own prompt is counted at its end, too
    assert grown <= 24 + 20, "prompts of clients that had gone were computed"
    assert answered[0].predicted == 2
    client.resync()


def test_full_queue_is_429_with_retry_after(pool):
    talk = Talk(pool, models.SMOLLM2, "full_queue", ctx=1024, extra=("--max-queue", "2"))
    client = talk.client
    busy = Busy(talk)
    waiting = [threading.Thread(target=client.completion, args=(prompt, 1)) for prompt in talk.prompts.tails(2, 12)]
    for thread in waiting:
        thread.start()
    poll("two requests wait", lambda: client.gauge("llamacpp:requests_deferred") == 2)
    for path, body in (("/completion", {"prompt": "x", "n_predict": 1}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}),
                       ("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}),
                       ("/completion", {"prompt": "x", "n_predict": 1, "stream": True})):
        with pytest.raises(HttpError) as caught:
            client.post(path, body)
        assert caught.value.status == 429 and int(caught.value.headers["retry-after"]) >= 1
        assert caught.value.error["message"]
    assert client.get("/health")["status"] == "ok"
    busy.close()
    for thread in waiting:
        thread.join()
    client.wait_idle()
    client.resync()
    assert client.completion("One, two,", 1).predicted == 1


@families
def test_a_cancelled_answer_leaves_its_prompt(pool, model):
    """Hanging up in the middle of the answer: prompt and the part generated so far are reused."""
    talk = Talk(pool, model, "cancel_answer", ctx=4096)
    prompt = talk.prompts("p", 200)
    stream = talk.client.events("/completion", completion_body(prompt, 3000))
    tokens = []
    for event in stream:
        tokens += event["tokens"]
        if len(tokens) >= 10:
            break
    stream.close()
    talk.client.wait_idle()
    talk.client.resync()
    follow = prompt + tokens[:10] + talk.prompts("u", 10)
    talk.ask(follow, len(follow), at_least=len(prompt))


@families
def test_many_clients_hang_up_at_once(pool, model):
    talk = Talk(pool, model, "hang_up", lanes=2)
    streams = [talk.client.events("/completion", completion_body(p, 700)) for p in talk.prompts.tails(6, 60)]
    threads = [threading.Thread(target=lambda s=s: (next(s), s.close())) for s in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    talk.client.wait_idle()
    talk.client.resync()
    for prompt in talk.prompts.tails(6, 60)[:3]:
        talk.repeat(prompt, 4)
