"""Asks a server, and after every answer checks the books.

Every answer: cached + evaluated == prompt tokens, and usage, timings and the `skippy` object say the same.
Client.check_counters(): /metrics equals the sums of the per-request fields.
"""
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx

import metrics
from process import KIND, poll

# the counters that must equal the sums over the requests: ledger field -> series
COUNTERS = {
    "evaluated": "llamacpp:prompt_tokens_total",
    "cached": "llamacpp:prompt_tokens_cached_total",
    "predicted": "llamacpp:tokens_predicted_total",
}
if KIND == "skippy":
    COUNTERS |= {"prompt": "skippy_prefix_cache_queries_total", "hits": "skippy_prefix_cache_hits_total"}


@dataclass
class Answer:
    """What one generation said about itself, from any route."""
    raw: dict
    text: str = ""
    tokens: list = field(default_factory=list)
    # per generated token: [(id, logprob), ...], best first; empty when not asked for
    top: list = field(default_factory=list)
    prompt_tokens: int = 0
    cached: int = 0
    evaluated: int = 0
    predicted: int = 0

    @property
    def skippy(self):
        return self.raw["skippy"]


def from_native(raw):
    timings = raw["timings"]
    top = [[(t["id"], t["logprob"]) for t in p["top_logprobs"]] for p in raw.get("completion_probabilities", [])]
    return Answer(raw, raw["content"], raw.get("tokens", []), top, prompt_tokens=raw["tokens_evaluated"],
                  cached=timings["cache_n"], evaluated=timings["prompt_n"], predicted=timings["predicted_n"])


def from_openai(raw):
    """Chat and text completions: usage carries what timings carry."""
    usage, timings = raw["usage"], raw["timings"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == timings["cache_n"], usage
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"], usage
    choice = raw["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    # tokens as text: this API has no ids
    logprobs = (choice.get("logprobs") or {}).get("content") or []
    top = [[(t["token"], t["logprob"]) for t in entry["top_logprobs"]] for entry in logprobs]
    return Answer(raw, text or "", [entry["token"] for entry in logprobs], top, prompt_tokens=usage["prompt_tokens"], cached=timings["cache_n"],
                  evaluated=timings["prompt_n"], predicted=usage["completion_tokens"])


def check_books(answer):
    assert answer.cached >= 0 and answer.evaluated >= 0
    assert answer.cached + answer.evaluated == answer.prompt_tokens, (
        f"{answer.cached} cached + {answer.evaluated} evaluated != {answer.prompt_tokens} prompt tokens")
    if KIND != "skippy":
        return
    own = answer.skippy
    assert own["evaluated_tokens"] == answer.evaluated, own
    assert sum(own["cached_tokens_details"].values()) == answer.cached, own
    assert (own["hit_kind"] == "none") == (answer.cached == 0), own
    if own["hit_kind"] == "decoded_result":
        assert answer.evaluated == 0, own
    assert own["first_different"] >= answer.cached, own


class HttpError(Exception):
    """A 4xx/5xx answer; .status and the parsed .error object (message, type, code)."""

    def __init__(self, response):
        self.status = response.status_code
        self.body = response.text
        try:
            self.error = response.json().get("error")
        except (ValueError, AttributeError):
            self.error = None
        self.headers = response.headers
        super().__init__(f"{self.status}: {self.body[:500]}")


class Client:
    def __init__(self, process, key=None):
        self.process = process
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=process.url, timeout=300, headers=headers,
                                 limits=httpx.Limits(max_connections=64))
        self._lock = threading.Lock()
        self._sums = dict.fromkeys(COUNTERS, 0)
        self.resync()

    # -- plain HTTP -----------------------------------------------------------------------------------------
    def request(self, method, path, body=None, **options):
        response = self.http.request(method, path, json=body, **options)
        if response.status_code >= 400:
            raise HttpError(response)
        return response

    def get(self, path):
        return self.request("GET", path).json()

    def post(self, path, body):
        return self.request("POST", path, body).json()

    def events(self, path, body):
        """The parsed `data:` objects of a server-sent stream; closing the generator closes the connection."""
        with self.http.stream("POST", path, json={**body, "stream": True}) as response:
            if response.status_code >= 400:
                response.read()
                raise HttpError(response)
            for line in response.iter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    yield json.loads(line[6:])

    # -- generation ------------------------------------------------------------------------------------------
    def completion(self, prompt, n_predict=6, **options):
        """Greedy /completion with token ids and the best candidates of each position."""
        return self.account(from_native(self.post("/completion", completion_body(prompt, n_predict, **options))))

    def chat(self, messages, max_tokens=6, **options):
        """Greedy /v1/chat/completions."""
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, "logprobs": True,
                "top_logprobs": 4, **options}
        return self.account(from_openai(self.post("/v1/chat/completions", body)))

    def many(self, calls, at_once):
        """Runs the callables on `at_once` threads; their results in order."""
        with ThreadPoolExecutor(at_once) as pool:
            return [f.result() for f in [pool.submit(call) for call in calls]]

    def rendered(self, messages, **options):
        """The token ids of a chat request's prompt."""
        prompt = self.post("/apply-template", {"messages": messages, **options})["prompt"]
        return self.tokenize(prompt, add_special=True, parse_special=True)

    def tokenize(self, text, **options):
        return self.post("/tokenize", {"content": text, **options})["tokens"]

    def forget(self):
        """Empties the cache (no such thing in the reference server: there, tests rely on fresh prompts)."""
        if KIND == "skippy":
            self.post("/reset_prefix_cache", {})

    # -- books -------------------------------------------------------------------------------------------------
    def account(self, answer):
        check_books(answer)
        with self._lock:
            for name, amount in (("evaluated", answer.evaluated), ("cached", answer.cached),
                                 ("predicted", answer.predicted), ("prompt", answer.prompt_tokens),
                                 ("hits", answer.cached)):
                if name in self._sums:
                    self._sums[name] += amount
        return answer

    def series(self):
        """{(name, labels): value} of /metrics."""
        return metrics.parse(self.request("GET", "/metrics").text)[0]

    def counters(self):
        return {name: value for (name, labels), value in self.series().items() if not labels}

    def gauge(self, name):
        return self.counters()[name]

    def resync(self):
        """Takes the counters as they are: after requests whose fields nobody saw (cancelled ones)."""
        counters = self.counters()
        self._base = {name: counters[series] for name, series in COUNTERS.items()}
        self._sums = dict.fromkeys(COUNTERS, 0)

    def check_counters(self):
        counters = self.counters()
        grown = {name: counters[series] - self._base[name] for name, series in COUNTERS.items()}
        assert grown == self._sums, f"/metrics grew by {grown}, the requests say {self._sums}"

    def wait_idle(self):
        poll("no request is running", lambda: self.counters()["llamacpp:requests_processing"] == 0
             and self.counters()["llamacpp:requests_deferred"] == 0)


def completion_body(prompt, n_predict=6, **options):
    return {"prompt": prompt, "n_predict": n_predict, "temperature": 0, "return_tokens": True, "n_probs": 4,
            "ignore_eos": True, **options}
