"""Models in stages: packages on disk, one process a stage, and the coordinator that clients talk to."""
import json
import subprocess
from pathlib import Path

from process import START_SECONDS, Process, ServerProcess, binary, free_port, poll
from proxy import Proxy

SETTINGS = {"-c": 1024, "-np": 2, "-ub": 64, "-t": 1}


def cut(model, folder, layers, *extra):
    """Cuts a model; the stages' folders in order."""
    done = subprocess.run([binary(), "stage", "split", "--model", str(model.path), "--out", str(folder), "--layers", layers,
                           "--no-check", *extra], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [Path(folder) / f"stage-{part}" for part in layers.split(",")]


class StageProcess(Process):
    """Serves packages on one port; may be killed and started again on the same one."""

    def __init__(self, packages, log_path, port=None, settings=None, extra=()):
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        flags = [str(part) for pair in {**SETTINGS, **(settings or {})}.items() for part in pair]
        folders = [part for package in packages for part in ("--package", str(package))]
        super().__init__([binary(), "stage", "serve", *folders, "--listen", self.address, *flags, *extra], log_path)
        self.expected_codes = (-9,)

    def wait_until_listening(self):
        def listening():
            assert self.exit_code() is None, f"exited with {self.exit_code()} at start:\n{self.log()[-4000:]}"
            return "  address  " in self.log()
        poll("the stage tells its address", listening, START_SECONDS, every=0.02)
        return self


class Coordinator(ServerProcess):
    """`skippy serve --stages`: a server like any other."""

    def __init__(self, model, addresses, log_path, extra=()):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [binary(), "serve", "--model", str(model), "--stages", ",".join(addresses), "--port", str(self.port),
                   "--metrics", *extra]
        cache = {"XDG_CACHE_HOME": str(Path(binary()).resolve().parent / "e2e-cache")}
        Process.__init__(self, command, log_path, cache)


class Deployment:
    """A model's stages, each in a process of its own, and their coordinator."""

    def __init__(self, pool, folder, packages, settings=None, extra=(), stage_extra=(), vocabulary=None, proxies=False):
        self.folder = Path(folder)
        self._pool = pool
        self._packages = packages
        self._vocabulary = vocabulary or packages[0].parent
        self._settings = settings
        self._stage_extra = stage_extra
        self._logs = 0
        self.stages = [self._start(package) for package in packages]
        for stage in self.stages:
            stage.wait_until_listening()
        self.proxies = [Proxy(stage.port) for stage in self.stages] if proxies else []
        self.coordinator = self.start_coordinator(*extra).wait_until_healthy()

    def _log(self, name):
        self._logs += 1
        return self.folder / f"{name}-{self._logs}.log"

    def _start(self, package, port=None):
        return self._pool.adopt(StageProcess([package], self._log(package.name), port, self._settings, self._stage_extra))

    @property
    def addresses(self):
        return [stage.address for stage in reversed(self.proxies or self.stages)]  # any order will do

    def start_coordinator(self, *extra):
        return self._pool.adopt(
            Coordinator(self._vocabulary, self.addresses, self._log("coordinator"), extra))

    def kill(self, index):
        self.stages[index].send(9)
        self.stages[index].wait(10)

    def restart(self, index):
        self.stages[index] = self._start(self._packages[index], self.stages[index].port).wait_until_listening()

    def stop(self):
        for process in [self.coordinator, *self.stages]:
            process.send(15)
        return [process.wait(15) for process in [self.coordinator, *self.stages]]


def manifest(package):
    return json.loads((Path(package) / "manifest.json").read_text())
