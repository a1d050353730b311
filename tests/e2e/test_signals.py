"""SIGTERM and SIGINT end the server cleanly and soon, whatever it is doing."""
import signal
import threading

import pytest

import models
from client import Client, completion_body
from process import poll
from talk import Talk

both = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
PROMPT = "One, two, three,"
SECONDS = 10


@pytest.fixture
def process(pool):
    return pool.start(models.SMOLLM2, ctx=2048, lanes=2).wait_until_healthy()


@both
def test_idle(process, number):
    process.send(number)
    assert process.wait(SECONDS) == 0


@both
def test_while_generating(process, number):
    client = Client(process)
    stream = client.events("/completion", completion_body(PROMPT, 1500))
    next(stream)
    process.send(number)
    assert process.wait(SECONDS) == 0
    stream.close()


@both
def test_while_prefilling_and_with_a_queue(process, number):
    client = Client(process)
    long = "word " * 1800
    threads = [threading.Thread(target=_try, args=(client, long + str(i))) for i in range(4)]
    for thread in threads:
        thread.start()
    # they share a prefix, so the others may wait for the first one's prefill rather than take the second lane
    poll("one computes, two wait", lambda: client.gauge("llamacpp:requests_processing") >= 1
         and client.gauge("llamacpp:requests_deferred") >= 2)
    process.send(number)
    assert process.wait(SECONDS) == 0
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive(), "a client is left hanging"


def _try(client, prompt):
    try:
        client.post("/completion", {"prompt": prompt, "n_predict": 200})
    except Exception:  # the server said it stops, or hung up: either will do
        pass


@both
def test_while_loading(pool, number):
    """Before it is healthy: it ends, soon, and not by a crash."""
    process = pool.start(models.GEMMA3, ctx=512)
    process.send(number)
    process.expected_codes = (-number,)  # before the handler is in place the default action is right
    assert process.wait(60) in (0, -number)


def test_twice_is_not_worse(process):
    client = Client(process)
    stream = client.events("/completion", completion_body(PROMPT, 1500))
    next(stream)
    process.send(signal.SIGINT)
    process.send(signal.SIGINT)
    process.expected_codes = (-signal.SIGINT, 130)
    assert process.wait(SECONDS) in (0, -signal.SIGINT, 130)
    stream.close()


def test_idle_connections_do_not_hold_it(process):
    client = Client(process)
    client.get("/health")  # a kept-alive connection stays open
    assert process.stop() == 0


def test_sigpipe_and_hangup_of_readers(pool):
    """A client that stops reading a stream and goes away does not end the server."""
    talk = Talk(pool, models.DEEPSEEK3, "sigpipe")
    for _ in range(5):
        stream = talk.client.events("/completion", completion_body(talk.prompts("p", 20), 400))
        next(stream)
        stream.close()
    talk.client.wait_idle()
    talk.client.resync()
    talk.ask(talk.prompts("q", 20), 20, at_least=0)
