"""Decode throughput: 128 tokens after a short prompt, timed from the first to the last token at the client."""
from duel import Duel
from text import prompt_text_of

NAME, GROUP, TITLE = "decode", "speed", "decode, 128 tokens"
TARGET = 0.97
NOISE_LIMIT = 0.05  # as in cold_prefill
TOKENS = 128


def run(bench, result):
    with Duel(bench.baseline, bench.ours, bench.settings_for(lanes=1)) as duel:
        result["commands"] = {role: server.command for role, server in duel.servers.items()}
        prompt = prompt_text_of(duel.servers["a"], 32, bench.seed, NAME)

        def sample(server, _key):
            reply = server.stream("/v1/completions", {"prompt": prompt, "max_tokens": TOKENS, "ignore_eos": True})
            return (reply.last_ms - reply.first_ms) / (reply.generated - 1)

        timed = duel.time(sample, bench.rounds, NOISE_LIMIT, bench.progress)
        result["rows"] = {"decode": {"title": TITLE, "unit": "ms a token", "target": TARGET, "cpu_counts": True, **timed}}
