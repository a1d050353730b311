"""--rpc: layers on other machines through llama.cpp's own rpc-server; here two of them on this one."""
import os
import socket
import subprocess
from pathlib import Path

import pytest

import models
from client import Client
from process import Process, binary, free_port, poll, serve_command
from prompts import Prompts

SEVERAL = [models.LLAMA_TINY, models.GEMMA3_TINY, models.FALCON_H1]


def rpc_binary():
    return os.environ.get("SKIPPY_RPC_SERVER") or str(Path(binary()).parent / "rpc-server")


@pytest.fixture(scope="module")
def endpoints(_pool, tmp_path_factory):
    addresses = []
    for i in range(2):
        port = free_port()
        log = tmp_path_factory.mktemp("rpc") / f"rpc-{i}.log"
        _pool.adopt(Process([rpc_binary(), "-H", "127.0.0.1", "-p", str(port), "-t", "1"], log))
        poll("the rpc-server listens", lambda p=port: listens(p), every=0.05)
        addresses.append(f"127.0.0.1:{port}")
    return addresses


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("model", SEVERAL, ids=lambda m: m.name)
def test_the_prefix_cache_works_on_top(pool, model, endpoints):
    # An rpc-server serves one client at a time: the process is this test's own, and it is its own cold run.
    client = Client(pool.start(model, extra=("--rpc", ",".join(endpoints))).wait_until_healthy())
    prompts = Prompts(client, f"rpc/{model.name}")
    base, other = prompts("base", 200), prompts("other", 150)
    more, branch = base + prompts("more", 20), base[:150] + prompts("branch", 30)

    def ask(prompt, at_least=0):
        answer = client.completion(prompt, n_predict=8)
        assert answer.cached >= at_least
        return answer.text

    # One lane: each comes after another one took it.
    told = [(prompt, ask(prompt, at_least)) for prompt, at_least in (
        (base, 0), (other, 0), (more, model.reach(len(base))), (other, len(other) - 1), (branch, model.reach(150)))]
    for prompt, text in told:
        assert client.completion(prompt, n_predict=8, cache_prompt=False).text == text
    client.process.stop()


@pytest.mark.parametrize("value, told", [
    ("nonsense", "'nonsense' is no address of an rpc-server; one is written host:port"),
    ("127.0.0.1:0", "no address of an rpc-server"),
    ("127.0.0.1:1", "nothing listens at 127.0.0.1:1: start llama.cpp's rpc-server there"),
])
def test_a_wrong_address_is_told_before_anything_is_loaded(value, told):
    command = serve_command(models.LLAMA_TINY.path, free_port(), extra=("--rpc", value))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert told in done.stderr
