"""What a server answered: text, tokens, accounting and times, read from one answer or from a stream's events."""
from dataclasses import dataclass, field


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
    first_ms: float = 0                            # to the first generated token (streams only)
    last_ms: float = 0                             # to the last generated token (streams only)
    timings: dict = field(default_factory=dict)
    skippy: dict = field(default_factory=dict)

    def account(self, answer):
        """What an answer, or a stream's last event, tells of tokens and times."""
        usage = answer.get("usage") or {}
        self.timings, self.skippy = answer.get("timings") or {}, answer.get("skippy") or {}
        self.prompt_tokens = usage.get("prompt_tokens", 0)
        self.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", self.timings.get("cache_n", 0))
        self.evaluated = self.timings.get("prompt_n", self.prompt_tokens - self.cached)
        self.generated = usage.get("completion_tokens", 0)

    def add_logprobs(self, choice):
        """True when there were some: a token was generated, even where it has no text."""
        entries = (choice.get("logprobs") or {}).get("content") or []
        for entry in entries:
            self.tokens.append(entry["id"])
            top = entry.get("top_logprobs") or []
            self.gaps.append(top[0]["logprob"] - top[1]["logprob"] if len(top) > 1 else float("inf"))
        return bool(entries)

    def cached_by_tier(self):
        """Cached prompt tokens by where they were. llama-server does not tell its slots from its prompt cache."""
        if not self.skippy:
            return {"slot or prompt cache": self.cached}
        if self.skippy.get("hit_kind") == "decoded_result":
            return {"decoded_result": self.cached}
        return dict(self.skippy["cached_tokens_details"])


def from_answer(answer, total_ms):
    choice = answer["choices"][0]
    reply = Reply(text=choice.get("text") or choice.get("message", {}).get("content") or "", total_ms=total_ms)
    reply.account(answer)
    reply.add_logprobs(choice)
    return reply


def from_events(events):
    """`events`: (milliseconds since sending, parsed event). An answer without any token counts from its end."""
    reply, text, at_ms = Reply(), [], 0
    for at_ms, event in events:
        for choice in event.get("choices") or []:
            piece = choice.get("text") or choice.get("delta", {}).get("content")
            if piece:
                text.append(piece)
            if reply.add_logprobs(choice) or piece:
                reply.first_ms = reply.first_ms or at_ms
                reply.last_ms = at_ms
        if event.get("usage"):
            reply.account(event)
    reply.text, reply.total_ms = "".join(text), at_ms
    reply.first_ms, reply.last_ms = reply.first_ms or at_ms, reply.last_ms or at_ms
    return reply
