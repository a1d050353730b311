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
from contestants import HELPERS, PORT, SCRATCH, Contestant, Settings  # noqa: F401  (what a user of servers needs)


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
        self._helpers = []
        try:
            for command in self.contestant.helpers:
                self._helpers.append(Helper(command, self._start_seconds))
        except BaseException:
            self._stop_helpers()
            self._scratch.cleanup()
            raise
        self.port = _free_port()
        addresses = ",".join(helper.address for helper in self._helpers)
        self.command = [part.replace(SCRATCH, self._scratch.name).replace(HELPERS, addresses)
                        for part in self.told_command()]
        self._log = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        except OSError as error:
            self._log.close()
            self._stop_helpers()
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
        """Bytes of the process and its helpers: resident now, and the most so far, those before a restart included."""
        each = [machine.resident_bytes(pid) for pid in (self.pid, *(helper.pid for helper in self._helpers))]
        return {"resident": sum(now["now"] for now in each),
                "peak": max(sum(now["peak"] for now in each), self._peak_before)}

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
        _end(self._process)
        self._log.close()
        self._stop_helpers()

    def _stop_helpers(self):
        while self._helpers:
            self._helpers.pop().stop()

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
        if self.contestant.kind != "llama-server":
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


class Helper:
    """A process that a server needs; it listens on a port of its own."""

    def __init__(self, command, start_seconds):
        port = _free_port()
        self.address = f"127.0.0.1:{port}"
        self._log = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen([part.replace(PORT, str(port)) for part in command],
                                             stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        except OSError as error:
            self._log.close()
            raise BenchError(f"cannot run {command[0]}: {error.strerror}") from error
        self.pid = self._process.pid
        deadline = time.monotonic() + start_seconds
        while not _listens(port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = os.pread(self._log.fileno(), 4096, 0).decode("utf-8", "replace")
                self.stop()
                raise BenchError(f"a helper does not listen: {' '.join(command)}\n{said}")
            time.sleep(0.02)

    def stop(self):
        _end(self._process)
        self._log.close()


def _end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
