"""Plays chat requests against one server and holds what it evaluated against the ideal prefix tree."""
import threading
from collections import Counter

from prefix_tree import PrefixTree
from stats import quantile


class Ledger:
    """`entries`: one dict a request, in the order sent: what a perfect cache evaluates, what the server did."""

    def __init__(self, server):
        self.server = server
        self.entries = []
        self._tree = PrefixTree()
        self._evaluated_before = server.evaluated_total()
        self._evaluated_by_stopped = 0

    def chat(self, messages, max_tokens=16):
        """Returns the answer's text."""
        return self.chat_together([messages], max_tokens)[0]

    def chat_together(self, conversations, max_tokens=16):
        """Sends all at once; in the ideal they count in the order given. Returns the answers' texts."""
        entries = []
        for messages in conversations:
            prompt = self.server.chat_tokens(messages)
            expected = self._tree.expect(prompt)
            self._tree.add_prompt(prompt)
            entries.append({"prompt": prompt, "ideal": expected.evaluated, "branch": expected.branch})
        self.entries += entries
        replies = in_threads(self.server, [
            lambda m=messages: self.server.chat_streamed(m, max_tokens, logprobs=True, top_logprobs=2)
            for messages in conversations])
        for entry, reply in zip(entries, replies):
            self._tree.add_generated(entry["prompt"], reply.tokens)
            entry.update(told_prompt=reply.prompt_tokens, cached=reply.cached, evaluated=reply.evaluated,
                         tokens=reply.tokens, gaps=reply.gaps, generated=reply.generated, tiers=reply.cached_by_tier(),
                         first_ms=reply.first_ms, decode_ms=reply.last_ms - reply.first_ms, total_ms=reply.total_ms,
                         hit_kind=reply.skippy.get("hit_kind"), miss_reason=reply.skippy.get("miss_reason"))
        return [reply.text for reply in replies]

    def chat_abandoned(self, messages, after_ms):
        """Sends and hangs up after `after_ms`.

        Counts in the ideal only through the request that asks the same again: together they should evaluate the
        prompt once. What the server evaluated for it is known only from the server's counter.
        """
        prompt = self.server.chat_tokens(messages)
        self.entries.append({"prompt": prompt, "ideal": 0, "branch": False, "abandoned": True})
        self.server.abandon("/v1/chat/completions", {"messages": messages, "max_tokens": 16}, after_ms)

    def restart_server(self):
        """The ideal goes on: a perfect cache survives. The server's counters start again."""
        self._evaluated_by_stopped = self._evaluated()
        self.server.restart()
        self._evaluated_before = self.server.evaluated_total()

    def _evaluated(self):
        return self._evaluated_by_stopped + self.server.evaluated_total() - self._evaluated_before

    def summary(self):
        return summarise(self.entries, self._evaluated())

    def partial_summary(self):
        """Of what was answered before the server was lost: its counters are lost too, the answers were told."""
        answered = [entry for entry in self.entries if "evaluated" in entry]
        return summarise(answered, sum(entry["evaluated"] for entry in answered)) if answered else {}


def summarise(entries, evaluated):
    """`evaluated` is the server's own count over all entries, abandoned ones included."""
    finished = [entry for entry in entries if not entry.get("abandoned")]
    ideal = sum(entry["ideal"] for entry in entries)
    excess = [entry["evaluated"] - entry["ideal"] for entry in finished]
    return {
        "requests": len(entries),
        "prompt_tokens": sum(len(entry["prompt"]) for entry in entries),
        "ideal": ideal,
        "evaluated": evaluated,
        "ratio": evaluated / ideal,
        "branches": sum(entry["branch"] for entry in entries),
        "most_excess_of_one": max(excess, default=0),
        "cached_by_tier": by_tier(finished),
        "first_ms": percentiles([entry["first_ms"] for entry in finished]),
        "total_ms": percentiles([entry["total_ms"] for entry in finished]),
        "decode_per_s": decode_speed(finished),
        "problems": problems_of(entries, finished, evaluated),
    }


def by_tier(entries):
    totals = Counter()
    for entry in entries:
        totals.update(entry["tiers"])   # keeps a tier that gave nothing
    return dict(totals)


def percentiles(values):
    return {f"p{round(100 * q)}": round(quantile(values, q), 2) for q in (0.5, 0.95, 0.99)} if values else None


def decode_speed(entries):
    """Tokens a second of one answer after its first token; None when no answer was longer than one."""
    longer = [entry for entry in entries if entry["generated"] > 1 and entry["decode_ms"] > 0]
    if not longer:
        return None
    return round(1000 * sum(e["generated"] - 1 for e in longer) / sum(e["decode_ms"] for e in longer), 1)


def problems_of(entries, finished, evaluated):
    """Where a server's own accounting does not add up."""
    problems = []
    for entry in finished:
        if entry["told_prompt"] != len(entry["prompt"]):
            problems.append(f"a prompt of {len(entry['prompt'])} tokens was reported as {entry['told_prompt']}")
        if entry["cached"] + entry["evaluated"] != entry["told_prompt"]:
            problems.append(f"cached {entry['cached']} + evaluated {entry['evaluated']} is not {entry['told_prompt']}")
        if sum(entry["tiers"].values()) != entry["cached"]:
            problems.append(f"cached {entry['cached']}, but by tier {entry['tiers']}")
    told = sum(entry["evaluated"] for entry in finished)
    if len(finished) == len(entries) and told != evaluated:
        problems.append(f"the answers tell of {told} evaluated tokens, /metrics of {evaluated}")
    return sorted(set(problems))


def compare_answers(ours, theirs):
    """Answers to equal prompts: how many are equal, and where the others part and how near the runner-up was.

    A prompt that only one of the two was asked (its history has another answer in it) is not compared.
    """
    known = {}
    for entry in theirs:
        if "tokens" in entry:
            known.setdefault(tuple(entry["prompt"]), entry)
    compared, equal, partings = 0, 0, []
    for entry in ours:
        other = known.get(tuple(entry["prompt"])) if "tokens" in entry else None
        if other is None:
            continue
        compared += 1
        at = first_difference(entry["tokens"], other["tokens"])
        if at is None:
            equal += 1
        else:
            gaps = other["gaps"]
            partings.append({"position": at, "gap": gaps[at] if at < len(gaps) else None})
    return {"compared": compared, "equal": equal, "partings": partings}


def first_difference(a, b):
    for at, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return at
    return None if len(a) == len(b) else min(len(a), len(b))


def in_threads(server, calls):
    """Runs all calls at once, each with a connection of its own; raises the first error."""
    if len(calls) == 1:
        return [calls[0]()]
    results, errors = [None] * len(calls), []
    gate = threading.Barrier(len(calls))

    def run(i):
        try:
            gate.wait()
            results[i] = calls[i]()
        except Exception as error:  # handed to the caller's thread below
            errors.append(error)
        finally:
            server.forget_connection()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
