"""The expected text of a request: that of a cold server (same binary and flags, --no-cache).

Synthetic models: token by token. Real quantised ones: up to the first token that differs, which must then be one
that the cold run itself ranked within Model.margin of its best (a schedule other than the cold one rounds
differently; a wrong state does not stay that close).
"""
import json


class Oracle:
    def __init__(self, model, cold_client):
        self.model = model
        self._cold_client = cold_client  # () -> Client: the pool may have stopped an earlier one
        self._known = {}

    @property
    def client(self):
        return self._cold_client()

    def answer(self, route, prompt, length, **options):
        """The cold answer of Client.<route>(prompt, length, **options)."""
        options = {k: v for k, v in options.items() if k not in ("cache_prompt", "id_slot", "prompt_cache_key")}
        key = json.dumps([route, prompt, length, options], sort_keys=True)
        if key not in self._known:
            answer = getattr(self.client, route)(prompt, length, **options)
            assert answer.cached == 0, "the cold server must not reuse anything"
            self._known[key] = answer
        return self._known[key]

    def check(self, answer, prompt, length=6, route="completion", **options):
        cold = self.answer(route, prompt, length, **options)
        problem = first_difference(answer.tokens, cold, self.model.margin)
        assert not problem, problem
        return cold


def first_difference(tokens, cold, margin):
    """None when `tokens` could be the cold run's text, else what is wrong."""
    for at, (got, want) in enumerate(zip(tokens, cold.tokens)):
        if got == want:
            continue
        ranks = dict(cold.top[at])
        if margin and got in ranks and max(ranks.values()) - ranks[got] <= margin:
            return None
        return f"token {at} is {got}, the cold run's is {want}; its candidates: {cold.top[at]}"
    if len(tokens) != len(cold.tokens):
        return f"{len(tokens)} tokens, the cold run gave {len(cold.tokens)}"
    return None
