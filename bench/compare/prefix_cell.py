"""Plays one cell of the scenario prefix_reuse: prefixes of N tokens, C clients at once, several numbers of generated
tokens. A leg has a prefix of its own and goes, on one server:

    cold        the prompts for the first time. One client sends the N tokens; several share them and each has an ending
                of ENDING tokens
    repeat/G    the very same prompts again. In between other conversations took every lane, so that the prompts must
                come out of a cache and are not merely what the lanes still hold
    extend/G    the same N tokens with new endings, likewise after other conversations

The cold prompts are sent once, with the largest G: all that follows in the leg finds the same prefix cached. A step's
`first` is the time to the first token at the client (the mean of the clients), `total` the time until all are answered;
of a repeat with one generated token, which takes about a millisecond, it is the median of three repeats.
"""
import time

from ledger import in_threads
from machine import cpu_seconds
from servers import BenchError
from stats import median
from text import prompt_of

ENDING = 16
OTHER = 16          # tokens of a conversation that takes a lane
SPARE = 64          # positions beyond prompt and answer
WARM_UP = ("warm-up",)


class Cell:
    def __init__(self, length, generate, clients, seed):
        self.length, self.generate, self.clients = length, generate, clients
        self._seed = (seed, "prefix_reuse", length, clients)
        self.told = {}      # (server's label, step) -> replies of all legs
        self.prompts = {}   # (key, step) -> the prompts, the same for every server
        self.answers = {}   # (key, step) -> {server's label: texts}

    @property
    def context(self):
        """Positions that a lane must have; a multiple of 256, as servers round."""
        return -(-(self.length + ENDING + max(self.generate) + SPARE) // 256) * 256

    @property
    def steps(self):
        """(name, generated tokens)"""
        return [("cold", max(self.generate)), *((step, g) for g in self.generate for step in ("repeat", "extend"))]

    def leg(self, server, key):
        """Plays a leg; returns {"cold first": ms, "cold total": ms, "cold cpu": s, "repeat/1 first": ms, ...}."""
        length = self.length if key != WARM_UP else min(self.length, 128)
        prefix = self.prefix(server, key, length)
        prompts = self._with_endings(server, prefix, key, "cold") if self.clients > 1 else [prefix]
        before = cpu_seconds(server.pid)
        times = self._send(server, key, "cold", prompts, max(self.generate))
        server.settle()
        times["cold cpu"] = cpu_seconds(server.pid) - before
        for generated in self.generate:
            repeats = [self._after_others(server, key, f"repeat/{generated}", prompts, generated, i)
                       for i in range(3 if generated == 1 else 1)]
            times |= {name: median([one[name] for one in repeats]) for name in repeats[0]}
            extended = self._with_endings(server, prefix, key, generated)
            times |= self._after_others(server, key, f"extend/{generated}", extended, generated, 0)
        return times

    def prefix(self, server, key, length=None):
        return prompt_of(server, length or self.length, *self._seed, key)

    def _with_endings(self, server, prefix, *seed):
        return [prefix + prompt_of(server, ENDING + 1, *self._seed, *seed, "ending", i)[1:]
                for i in range(self.clients)]

    def _after_others(self, server, key, step, prompts, generated, count):
        others = [prompt_of(server, OTHER, *self._seed, key, step, count, "other", i) for i in range(self.clients)]
        together(server, others, 1)
        return self._send(server, key, step, prompts, generated)

    def _send(self, server, key, step, prompts, generated):
        start = time.perf_counter()
        replies = together(server, prompts, generated)
        total = 1000 * (time.perf_counter() - start)
        if key != WARM_UP:
            self._keep(server.label, key, step, prompts, replies)
        return {f"{step} first": sum(reply.first_ms for reply in replies) / len(replies),
                f"{step} total": replies[0].total_ms if len(replies) == 1 else total}

    def _keep(self, label, key, step, prompts, replies):
        if step == "cold" and max(reply.evaluated for reply in replies) < self.length - 8:   # one evaluates for all
            raise BenchError(f"{label}: a prompt meant to be cold had {replies[0].cached} cached tokens")
        self.told.setdefault((label, step), []).append(replies)
        self.prompts[key, step] = prompts
        self.answers.setdefault((key, step), {})[label] = [reply.text for reply in replies]


def together(server, prompts, generated):
    """All prompts at once, as streams, each answer with as many tokens as asked."""
    return in_threads(server, [
        lambda prompt=prompt: server.stream("/v1/completions", {"prompt": prompt, "max_tokens": generated,
                                                                "ignore_eos": True})
        for prompt in prompts])
