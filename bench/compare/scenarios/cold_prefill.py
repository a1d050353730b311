"""Prompts that were never sent before, one generated token: the price of having a cache when it does not help.

Against llama-server as it comes, and against one without its own prompt cache, which then does nothing but compute.
"""
from duel import Duel
from servers import BenchError
from text import prompt_of

NAME, GROUP, TITLE = "cold_prefill", "speed", "cold prefill"
TARGET = 0.97
NOISE_LIMIT = 0.05  # two instances of one server differ by 2-4 % here, by how their memory happens to lie
LENGTHS = (128, 512)


def run(bench, result):
    result["rows"] = {}
    uncached = bench.without_cache(bench.baseline)
    for label, baseline, lengths in (("", bench.baseline, LENGTHS), (" --cache-ram 0", uncached, LENGTHS[:1])):
        with Duel(baseline, bench.ours, bench.settings_for(lanes=1, context=4096)) as duel:
            result.setdefault("commands", {})[baseline.label + label] = duel.servers["a"].command
            result["commands"][bench.ours.label] = duel.servers["b"].command
            for length in lengths:
                timed = duel.time(_sample(bench, label, length), bench.rounds, NOISE_LIMIT, bench.progress)
                name = f"{length}{label}"
                result["rows"][name] = {"title": f"{TITLE}, {length} tokens{label and ', llama-server' + label}",
                                        "unit": "ms", "target": TARGET, "cpu_counts": True, **timed}
                bench.save()


def _sample(bench, label, length):
    def sample(server, key):
        reply = server.complete(prompt_of(server, length, bench.seed, NAME, label, length, key))
        if reply.evaluated < length - 8:
            raise BenchError(f"{server.label}: a prompt meant to be cold had {reply.cached} cached tokens")
        return reply.total_ms
    return sample
