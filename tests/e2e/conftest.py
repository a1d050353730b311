"""Servers for the tests: one per (model, flags) and session; stopped by pid; logs shown on failure."""
import signal

import pytest

from client import Client
from models import CHUNK
from oracle import Oracle
from process import ServerProcess
from prompts import Prompts

MOST_SERVERS = 5  # alive at once; the least recently used one is stopped first


class Pool:
    def __init__(self, folder):
        self._folder = folder
        self._clients = {}   # (path, flags) -> Client, in order of use
        self._oracles = {}
        self._started = 0
        self._own = []       # processes that tests stop themselves
        self.used = []       # processes that the running test asked for

    def get(self, model, key=None, **flags):
        """`key`: what the client sends; the server gets its keys by the flag."""
        flags.setdefault("ubatch", CHUNK)
        name = (model.path, key, repr(sorted(flags.items())))
        client = self._clients.pop(name, None)
        if client and client.process.exit_code() is not None:
            client = None  # a test before this one was told so already
        if client is None:
            while len(self._clients) >= MOST_SERVERS:
                self._stop(next(iter(self._clients)))
            client = Client(self._start(model, **flags).wait_until_healthy(), key)
        self._clients[name] = client
        self.used.append(client.process)
        return client

    def start(self, model, **flags):
        """A process of the test's own, not shared, perhaps not healthy yet; killed at the end if still there."""
        flags.setdefault("ubatch", CHUNK)
        self._own.append(self._start(model, **flags))
        return self._own[-1]

    def adopt(self, process):
        """A process that a test started in another way: killed at the end if still there, its log shown on failure."""
        self._own.append(process)
        self.used.append(process)
        return process

    def _start(self, model, **flags):
        path = getattr(model, "path", model)
        self._started += 1
        process = ServerProcess(path, self._folder / f"server-{self._started}.log", **flags)
        self.used.append(process)
        return process

    def oracle(self, model, **flags):
        flags = {k: v for k, v in flags.items() if k in ("ctx", "ubatch", "template", "lora")}
        key = (model.name, repr(sorted(flags.items())))
        if key not in self._oracles:
            self._oracles[key] = Oracle(model, lambda: self.get(model, no_cache=True, **flags))
        return self._oracles[key]

    def _stop(self, name):
        code = self._clients.pop(name).process.stop()
        assert code == 0, f"the server exited with {code} on SIGTERM"

    def close(self):
        for process in self._own:
            process.send(signal.SIGKILL)
        for name in list(self._clients):
            self._stop(name)


@pytest.fixture(scope="session")
def _pool(tmp_path_factory):
    pool = Pool(tmp_path_factory.mktemp("servers"))
    yield pool
    pool.close()


@pytest.fixture
def pool(_pool, request):
    _pool.used = []
    yield _pool
    request.node.servers = _pool.used
    dead = [p for p in _pool.used if p.exit_code() not in (None, 0, *getattr(p, "expected_codes", ()))]
    assert not dead, f"a server died with {[p.exit_code() for p in dead]}:\n{dead[0].log()[-4000:]}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        pool = item.funcargs.get("pool")
        for process in getattr(pool, "used", [])[-3:]:
            report.sections.append((f"log of {' '.join(process.command)}", process.log()[-6000:]))
