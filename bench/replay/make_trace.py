#!/usr/bin/env python3
"""Writes a synthetic trace in Mooncake's format for `skippy bench replay`.

    bench/replay/make_trace.py --requests 4000 --seed 1 > trace.jsonl

Three kinds of users of a local server, interleaved by time, each with think times of their own:
  chat   a system prompt of a few that all share, then turns of one to three blocks; most chats are short, some are
         taken up again much later
  agent  a long system prompt with tools, then many quick steps that each add a tool's output
  rag    a question behind a document; a few documents are asked about again and again, most once
Lengths are in blocks of --block-tokens tokens; the last block of a request is partial and has an id of its own.
Nothing here comes from a recorded trace: it shows how policies differ, not how often anybody's cache will hit.
"""
import argparse
import heapq
import json
import random
import sys

MOST_BLOCKS = 60   # a context of about 30,000 tokens


class Ids:
    def __init__(self):
        self._next = 0

    def take(self, count):
        first, self._next = self._next, self._next + count
        return list(range(first, self._next))


def zipf(rng, count, exponent):
    weights = [1 / (i + 1) ** exponent for i in range(count)]
    return rng.choices(range(count), weights)[0]


class World:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.ids = Ids()
        self.chat_prompts = [self.ids.take(self.rng.randint(1, 6)) for _ in range(8)]
        self.agent_prompts = [self.ids.take(self.rng.randint(8, 20)) for _ in range(3)]
        self.documents = [self.ids.take(self.rng.randint(4, 30)) for _ in range(300)]
        self.old_chats = []

    def session(self):
        """Blocks of each request of one session, and the seconds before it."""
        kind = self.rng.choices(("chat", "agent", "rag"), (5, 2, 3))[0]
        return getattr(self, "_" + kind)()

    def _chat(self):
        rng = self.rng
        if self.old_chats and rng.random() < 0.15:
            blocks = list(rng.choice(self.old_chats))
        else:
            blocks = list(self.chat_prompts[zipf(rng, len(self.chat_prompts), 1.0)])
        for _ in range(min(20, 1 + int(rng.expovariate(1 / 4)))):
            yield rng.expovariate(1 / 60), blocks
            blocks = blocks + self.ids.take(rng.randint(1, 3))
        self.old_chats.append(blocks)

    def _agent(self):
        rng = self.rng
        blocks = list(self.agent_prompts[zipf(rng, len(self.agent_prompts), 1.0)])
        for _ in range(rng.randint(5, 25)):
            yield rng.expovariate(1 / 8), blocks
            blocks = blocks + self.ids.take(rng.randint(1, 3))

    def _rag(self):
        document = self.documents[zipf(self.rng, len(self.documents), 0.8)]
        for _ in range(self.rng.randint(1, 3)):
            yield self.rng.expovariate(1 / 40), document


def requests(seed, count, active, block):
    """(milliseconds, blocks) in order of time, with `active` sessions at any time."""
    world = World(seed)
    sessions = [world.session() for _ in range(active)]
    heap = [(world.rng.uniform(0, 60), i) for i in range(active)]
    heapq.heapify(heap)
    while count > 0:
        now, i = heapq.heappop(heap)
        step = next(sessions[i], None)
        if step is None or len(step[1]) >= MOST_BLOCKS:
            sessions[i] = world.session()
            heapq.heappush(heap, (now + world.rng.expovariate(1 / 30), i))
            continue
        wait, blocks = step
        tail = world.rng.randint(1, block - 1)   # what is asked now: of no use to anybody else
        yield {"timestamp": int(1000 * now), "input_length": len(blocks) * block + tail,
               "output_length": world.rng.randint(16, 400), "hash_ids": blocks + world.ids.take(1)}
        heapq.heappush(heap, (now + wait, i))
        count -= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--active", type=int, default=12, help="sessions at any time")
    parser.add_argument("--block-tokens", type=int, default=512,
                        help="tokens of a block; 500: texts part anywhere, not on the chunk's grid")
    arguments = parser.parse_args()
    if arguments.requests < 1 or arguments.active < 1:
        parser.error("--requests and --active must be at least 1")
    if arguments.block_tokens < 2:
        parser.error("--block-tokens must be at least 2")
    for request in requests(arguments.seed, arguments.requests, arguments.active, arguments.block_tokens):
        json.dump(request, sys.stdout)
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
