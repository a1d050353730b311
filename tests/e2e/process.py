"""A server process: started on a free loopback port, waited for, stopped by its pid, its log kept.

Nothing here knows what is asked of the server; that is client.py. All waiting polls observable state
against a deadline.
"""
import ctypes
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx

REPOSITORY = Path(__file__).resolve().parents[2]
# "llama-server": the reference server of the same llama.cpp, to develop the tests themselves.
KIND = os.environ.get("SKIPPY_SERVER_KIND", "skippy")
START_SECONDS = 120.0
STOP_SECONDS = 15.0


def binary():
    default = "build/bin/llama-server" if KIND == "llama-server" else "build/skippy"
    return os.environ.get("SKIPPY_BIN") or str(REPOSITORY / default)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def poll(what, check, seconds=60.0, every=0.01):
    """Waits until check() is true and returns its value; fails with `what` at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(every)


def serve_command(model, port, *, ctx=1024, lanes=1, ubatch=64, no_cache=False, metrics_flag=True, template=None,
                  lora=(), extra=()):
    common = ["--port", str(port), "--host", "127.0.0.1", "-t", "1", "-ub", str(ubatch), *extra]
    for path in lora:
        common += ["--lora", path]
    if lora:
        common += ["--lora-init-without-apply"]
    if template:
        common += ["--chat-template-file", str(template)]
    if KIND == "llama-server":
        cold = ["--no-cache-prompt", "--cache-ram", "0"] if no_cache else []
        return [binary(), "-m", str(model), "-c", str(ctx * lanes), "-np", str(lanes), "-b", str(ubatch),
                "--jinja", "--metrics", "--slots", *cold, *common]
    cold = [*(["--metrics"] if metrics_flag else []), *(["--no-cache"] if no_cache else [])]
    return [binary(), "serve", "--model", str(model), "--ctx-size", str(ctx), "--lanes", str(lanes), *cold,
            *common]


def _die_with_parent():
    """In the child: a test run that is killed leaves no servers behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Process:
    """One running command whose output goes to a file."""

    def __init__(self, command, log_path, environment=None):
        self.command = command
        self.log_path = Path(log_path)
        with open(self.log_path, "wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_parent, env={**os.environ, **(environment or {})})

    @property
    def pid(self):
        return self._process.pid

    def exit_code(self):
        return self._process.poll()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def send(self, signal_number):
        if self._process.poll() is None:
            self._process.send_signal(signal_number)

    def wait(self, seconds):
        """The exit code; fails (after killing) when the process outlives the deadline."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"still running after {seconds} s: {' '.join(self.command)}\n{self.log()[-4000:]}")

    def resident_bytes(self):
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")


class ServerProcess(Process):
    """A server that answers /health. Self-tests are kept beside the binary, so that only the first run pays them."""

    def __init__(self, model, log_path, *, environment=None, **flags):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        cache = {"XDG_CACHE_HOME": str(Path(binary()).resolve().parent / "e2e-cache")}
        super().__init__(serve_command(model, self.port, **flags), log_path, {**cache, **(environment or {})})

    def wait_until_healthy(self):
        def healthy():
            if self.exit_code() is not None:
                raise AssertionError(f"exited with {self.exit_code()} at start: {' '.join(self.command)}\n{self.log()[-4000:]}")
            try:
                return httpx.get(self.url + "/health", timeout=5).status_code == 200
            except httpx.TransportError:
                return False
        poll(f"{self.url}/health answers 200", healthy, START_SECONDS, every=0.02)
        return self

    def stop(self):
        """SIGTERM, and the exit code."""
        self.send(signal.SIGTERM)
        return self.wait(STOP_SECONDS)
