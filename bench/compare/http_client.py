"""Asking a server over HTTP: connections that are kept, answers and streams, and what goes wrong on the way."""
import http.client
import json
import socket
import threading
import time

import replies


class BenchError(Exception):
    """Something the user must know: a missing binary, a model that does not load, a server that died."""


class Client:
    """Has `port` and `label`. Each thread has a connection of its own; requests are greedy."""

    def __init__(self, label):
        self.label = label
        self._local = threading.local()

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

    def lost(self, error):
        """The error to raise for a request that got no answer."""
        self.forget_connection()
        return BenchError(f"{self.label} lost a request ({type(error).__name__}: {error})")

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
                    raise self.lost(error) from error
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
            raise self.lost(error) from error
        if response.will_close:
            self.forget_connection()
        return data

    def json(self, method, path, body=None):
        return json.loads(self.raw(method, path, body))

    def ask(self, path, body):
        """One request without streaming, greedy."""
        start = time.perf_counter()
        data = self.raw("POST", path, {"temperature": 0, **body})
        return replies.from_answer(json.loads(data), 1000 * (time.perf_counter() - start))

    def events(self, path, body):
        """The parsed events of a stream, with the milliseconds since sending. A stream without its end is an error."""
        start = time.perf_counter()
        response = self.open("POST", path, {"temperature": 0, "stream": True, **body})
        ended = False
        try:
            for line in response:
                at_ms, ended = 1000 * (time.perf_counter() - start), ended or line.strip() == b"data: [DONE]"
                if line.startswith((b"data: {", b"error: {")):
                    event = json.loads(line.partition(b": ")[2])
                    if "error" in event or line.startswith(b"error"):
                        raise BenchError(f"{self.label} broke off a stream of {path}: {line.decode().strip()}")
                    yield at_ms, event
        except (OSError, http.client.HTTPException) as error:
            raise self.lost(error) from error
        if not ended:
            raise self.lost(http.client.IncompleteRead(b""))
        if response.will_close:
            self.forget_connection()

    def stream(self, path, body):
        """One request as a stream, greedy: with the times of its first and last token."""
        return replies.from_events(self.events(path, {**body, "stream_options": {"include_usage": True}}))

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
            raise self.lost(error) from error

    def complete(self, prompt, max_tokens=1, **options):
        return self.ask("/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, **options})

    def chat(self, messages, max_tokens=16, **options):
        return self.ask("/v1/chat/completions", {"messages": messages, "max_tokens": max_tokens, **options})

    def chat_streamed(self, messages, max_tokens=16, **options):
        return self.stream("/v1/chat/completions", {"messages": messages, "max_tokens": max_tokens, **options})

    def tokenize(self, text, special=True):
        return self.json("POST", "/tokenize", {"content": text, "add_special": special, "parse_special": True})["tokens"]

    def detokenize(self, tokens):
        return self.json("POST", "/detokenize", {"tokens": tokens})["content"]

    def chat_tokens(self, messages):
        return self.tokenize(self.json("POST", "/apply-template", {"messages": messages})["prompt"])

    def round_trip_ms(self):
        """What HTTP alone takes: the same client, a request that does nothing."""
        start = time.perf_counter()
        self.raw("GET", "/health")
        return 1000 * (time.perf_counter() - start)
