"""The servers under comparison: their command lines, starting, stopping by pid, and asking them over HTTP."""
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field

import machine


class BenchError(Exception):
    """Something the user must know: a missing binary, a model that does not load, a server that died."""


@dataclass(frozen=True)
class Settings:
    """What both servers get alike."""
    model: str
    context: int = 4096        # positions a conversation
    lanes: int = 1             # conversations at once
    threads: int = 2
    ubatch: int = 256          # tokens of one forward pass of a prefill
    type_k: str = "f16"
    type_v: str = "f16"
    cache_ram: int = 8192      # MiB


@dataclass(frozen=True)
class Contestant:
    label: str
    kind: str                  # "skippy" or "llama-server"
    binary: str
    extra: tuple = ()

    def command(self, settings, port):
        shared = ["-t", settings.threads, "-tb", settings.threads, "-ub", settings.ubatch, "-fa", "on",
                  "-ctk", settings.type_k, "-ctv", settings.type_v, "--metrics", "--host", "127.0.0.1", "--port", port]
        if self.kind == "skippy":
            own = [self.binary, "serve", "--model", settings.model, "--ctx-size", settings.context,
                   "--lanes", settings.lanes, "--cache-ram", settings.cache_ram]
        else:  # llama-server divides its context by its slots
            own = [self.binary, "-m", settings.model, "-c", settings.context * settings.lanes,
                   "-np", settings.lanes, "--no-webui"]
        return [str(part) for part in [*own, *shared, *self.extra]]


@dataclass
class Reply:
    text: str = ""
    tokens: list = field(default_factory=list)     # generated ids, when logprobs were asked for
    gaps: list = field(default_factory=list)       # log-probability between the best and the second best
    prompt_tokens: int = 0
    cached: int = 0
    evaluated: int = 0
    generated: int = 0
    total_ms: float = 0
    first_ms: float = 0                            # to the first generated text (streams only)
    last_ms: float = 0                             # to the last generated text (streams only)
    timings: dict = field(default_factory=dict)
    skippy: dict = field(default_factory=dict)


class Server:
    """One running server. `with Server(contestant, settings) as server:` stops it, by its pid."""

    def __init__(self, contestant, settings, start_seconds=120):
        self.contestant, self.settings = contestant, settings
        self.label = contestant.label
        self._start_seconds = start_seconds
        self._local = threading.local()

    def __enter__(self):
        self.port = _free_port()
        self.command = self.contestant.command(self.settings, self.port)
        self._log = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        except OSError as error:
            self._log.close()
            raise BenchError(f"{self.label}: cannot run {self.contestant.binary}: {error.strerror}") from error
        self.pid = self._process.pid
        try:
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

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

    def log_tail(self, lines=12):
        size = os.fstat(self._log.fileno()).st_size   # pread: the offset is the server's, who writes there
        text = os.pread(self._log.fileno(), 8192, max(0, size - 8192)).decode("utf-8", "replace").splitlines()[-lines:]
        return "\n".join("  | " + line for line in text)

    # ---- requests

    def _connection(self):
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            connection.connect()
            self._local.connection = connection
        return connection

    def forget_connection(self):
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _lost(self, error):
        self.forget_connection()
        time.sleep(0.1)
        code = self._process.poll()
        state = "is still running" if code is None else f"died with code {code}"
        return BenchError(f"{self.label} {state} after losing a request ({type(error).__name__}: {error})\n{self.log_tail()}")

    def open(self, method, path, body=None):
        """The response, its body unread. A connection that the server closed while idle is opened again."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        for attempt in (1, 2):
            fresh = getattr(self._local, "connection", None) is None
            try:
                connection = self._connection()
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                break
            except (OSError, http.client.HTTPException) as error:
                if fresh or attempt == 2:
                    raise self._lost(error) from error
                self.forget_connection()
        if response.status != 200:
            text = response.read(2000).decode("utf-8", "replace")
            self.forget_connection()
            raise BenchError(f"{self.label} answered {response.status} to {method} {path}: {text.strip()}")
        return response

    def raw(self, method, path, body=None):
        response = self.open(method, path, body)
        try:
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error
        if response.will_close:
            self.forget_connection()
        return data

    def json(self, method, path, body=None):
        return json.loads(self.raw(method, path, body))

    def ask(self, path, body):
        """One request without streaming, greedy."""
        start = time.perf_counter()
        data = self.raw("POST", path, {"temperature": 0, **body})
        total_ms = 1000 * (time.perf_counter() - start)
        answer = json.loads(data)
        choice = answer["choices"][0]
        reply = _account(answer)
        reply.total_ms = total_ms
        reply.text = choice.get("text") or choice.get("message", {}).get("content") or ""
        for entry in (choice.get("logprobs") or {}).get("content") or []:
            reply.tokens.append(entry["id"])
            top = entry.get("top_logprobs") or []
            reply.gaps.append(top[0]["logprob"] - top[1]["logprob"] if len(top) > 1 else float("inf"))
        return reply

    def events(self, path, body):
        """The parsed events of a stream, with the milliseconds since sending."""
        start = time.perf_counter()
        response = self.open("POST", path, {"temperature": 0, "stream": True, **body})
        try:
            for line in response:
                if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                    yield 1000 * (time.perf_counter() - start), json.loads(line[6:])
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error
        if response.will_close:
            self.forget_connection()

    def stream(self, path, body):
        reply, text = Reply(), []
        for at_ms, event in self.events(path, {**body, "stream_options": {"include_usage": True}}):
            for choice in event.get("choices") or []:
                piece = choice.get("text") or choice.get("delta", {}).get("content")
                if piece:
                    reply.first_ms = reply.first_ms or at_ms
                    reply.last_ms = at_ms
                    text.append(piece)
            if event.get("usage"):
                told = _account(event)
                told.first_ms, told.last_ms, reply = reply.first_ms, reply.last_ms, told
            reply.total_ms = at_ms
        reply.text = "".join(text)
        return reply

    def abandon(self, path, body, after_ms):
        """Sends a streaming request and hangs up after `after_ms`, whatever has arrived by then."""
        data = json.dumps({"temperature": 0, "stream": True, **body}).encode()
        head = (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(data)}\r\n\r\n")
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                connection.sendall(head.encode() + data)
                time.sleep(after_ms / 1000)
        except OSError as error:
            raise self._lost(error) from error

    def complete(self, prompt, max_tokens=1, **options):
        return self.ask("/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, **options})

    def chat(self, messages, max_tokens=16, **options):
        return self.ask("/v1/chat/completions", {"messages": messages, "max_tokens": max_tokens, **options})

    def tokenize(self, text, special=True):
        return self.json("POST", "/tokenize", {"content": text, "add_special": special, "parse_special": True})["tokens"]

    def detokenize(self, tokens):
        return self.json("POST", "/detokenize", {"tokens": tokens})["content"]

    def chat_tokens(self, messages):
        return self.tokenize(self.json("POST", "/apply-template", {"messages": messages})["prompt"])

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

    def round_trip_ms(self):
        """What HTTP alone takes: the same client, a request that does nothing."""
        start = time.perf_counter()
        self.raw("GET", "/health")
        return 1000 * (time.perf_counter() - start)

    def settle(self, quiet_ms=60):
        """Waits until the server's threads have stopped spinning, so that they do not disturb another server."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            before = machine.cpu_ticks(self.pid)
            time.sleep(quiet_ms / 1000)
            if machine.cpu_ticks(self.pid) == before:
                return


def _account(answer):
    usage, timings = answer.get("usage") or {}, answer.get("timings") or {}
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", timings.get("cache_n", 0))
    prompt = usage.get("prompt_tokens", 0)
    return Reply(prompt_tokens=prompt, cached=cached, evaluated=timings.get("prompt_n", prompt - cached),
                 generated=usage.get("completion_tokens", 0), timings=timings, skippy=answer.get("skippy") or {})


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
