"""The servers under comparison: starting, stopping by pid, starting again, and what they tell of themselves."""
import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time

import machine
from http_client import BenchError, Client
from contestants import SCRATCH, Contestant, Settings  # noqa: F401  (what a user of servers needs)


class Server(Client):
    """One running server. `with Server(contestant, settings) as server:` stops it, by its pid."""

    def __init__(self, contestant, settings, start_seconds=600):
        self.contestant, self.settings = contestant, settings
        super().__init__(contestant.label)
        self._start_seconds = start_seconds
        self._peak_before = 0   # bytes, of processes that were stopped by restart()

    def __enter__(self):
        self._scratch = tempfile.TemporaryDirectory()
        self._start()
        return self

    def _start(self):
        self.port = _free_port()
        self.command = [part.replace(SCRATCH, self._scratch.name) for part in self.told_command()]
        self._log = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        except OSError as error:
            self._log.close()
            self._scratch.cleanup()
            raise BenchError(f"{self.label}: cannot run {self.contestant.binary}: {error.strerror}") from error
        self.pid = self._process.pid
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        self._stop()
        self._scratch.cleanup()

    def restart(self):
        """Stops the process and starts the same command again, on another port; what it kept in files stays."""
        self._peak_before = self.memory()["peak"]
        self._stop()
        self._start()

    def told_command(self):
        """Without the name of our scratch folder, which says nothing to a reader."""
        return self.contestant.command(self.settings, self.port)

    def memory(self):
        """Bytes of the process: resident now, and the most so far, processes before a restart included."""
        now = machine.resident_bytes(self.pid)
        return {"resident": now["now"], "peak": max(now["peak"], self._peak_before)}

    def saves_slots(self):
        return "--slot-save-path" in self.command

    def _wait_until_ready(self):
        deadline = time.monotonic() + self._start_seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise BenchError(f"{self.label} ended with code {self._process.returncode} while starting:\n"
                                 f"  {' '.join(self.command)}\n{self.log_tail()}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            finally:
                connection.close()
            time.sleep(0.02)
        raise BenchError(f"{self.label} was not ready after {self._start_seconds} s\n{self.log_tail()}")

    def _stop(self):
        self.forget_connection()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def log(self, last=None):
        """What the process has written, or the last so many bytes of it."""
        size = os.fstat(self._log.fileno()).st_size   # pread: the offset is the server's, who writes there
        start = max(0, size - last) if last else 0
        return os.pread(self._log.fileno(), size - start, start).decode("utf-8", "replace")

    def log_tail(self, lines=12):
        return "\n".join("  | " + line for line in self.log(8192).splitlines()[-lines:])

    def lost(self, error):
        self.forget_connection()
        time.sleep(0.1)
        code = self._process.poll()
        state = "is still running" if code is None else f"died with code {code}"
        return BenchError(f"{self.label} {state} after losing a request ({type(error).__name__}: {error})\n{self.log_tail()}")

    def evaluated_total(self):
        """Prompt tokens evaluated since the start, those of abandoned requests included."""
        if self.contestant.kind == "skippy":
            return (self.metric('skippy_prompt_tokens_by_source_total{source="evaluated"}')
                    + self.metric("skippy_recomputed_tokens_total", default=0))   # not in the answers, but computed
        return self.metric("llamacpp:prompt_tokens_total")

    def metric(self, name, default=None):
        for line in self.raw("GET", "/metrics").decode().splitlines():
            if line.startswith(name + " "):
                return round(float(line.split()[-1]))
        if default is not None:
            return default
        raise BenchError(f"{self.label}: /metrics has no {name}")

    def settle(self, quiet_ms=60):
        """Waits until the server's threads have stopped spinning, so that they do not disturb another server."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            before = machine.cpu_ticks(self.pid)
            time.sleep(quiet_ms / 1000)
            if machine.cpu_ticks(self.pid) == before:
                return


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
