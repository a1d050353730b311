"""Restoring a 2,048-token prefix from host memory into a lane, against a plain memcpy of as many bytes, single
threaded, on the same machine in the same minute. Several buffers take turns, so that the copy does not live in the
processor's cache."""
import ctypes
import time

from servers import BenchError, Server
from stats import spread
from text import prompt_of

NAME, GROUP, TITLE = "restore", "cost", "restore of a 2,048-token prefix, share of memcpy speed"
TARGET = 0.6
LENGTH = 2048


def run(bench, result):
    samples = []
    with Server(bench.ours, bench.settings_for(lanes=1)) as server:
        result["commands"] = {server.label: server.command}
        prefix = prompt_of(server, LENGTH, bench.seed, NAME, "prefix")
        server.complete(prefix)
        copy = None
        for i in range(max(5, bench.rounds)):
            server.complete(prompt_of(server, 64, bench.seed, NAME, "takes the lane", i))
            before = restored_bytes(server)
            reply = server.complete(prefix + prompt_of(server, 16, bench.seed, NAME, "tail", i)[1:])
            restored = restored_bytes(server) - before
            if restored == 0:
                raise BenchError(f"no bytes were restored: hit kind {reply.skippy.get('hit_kind')}, "
                                 f"{reply.cached} cached tokens, miss reason {reply.skippy.get('miss_reason')}")
            copy = copy or Copies(restored)
            samples.append({"bytes": restored, "cached": reply.cached, "restore_ms": reply.skippy["restore_ms"],
                            "memcpy_ms": copy.milliseconds(restored)})
            bench.progress(f"{i + 1}")
    share = spread([s["memcpy_ms"] / s["restore_ms"] for s in samples])
    speed = spread([s["bytes"] / s["restore_ms"] / 1e6 for s in samples])
    result["rows"] = {"speed": {
        "title": TITLE, "bound": f"at least {100 * TARGET:.0f} %",
        "value": f"{100 * share.median:.0f} % ({100 * share.low:.0f} to {100 * share.high:.0f}): {speed.median:.1f} GB/s, "
                 f"{samples[0]['bytes'] / 2**20:.0f} MiB",
        "share": share.as_dict(), "gb_per_s": speed.as_dict(), "samples": samples,
        "gate": {"met": share.median >= TARGET}}}


def restored_bytes(server):
    return server.metric("skippy_restored_bytes_total")


class Copies:
    """memcpy of n bytes between buffers that were written before (so no page faults are timed)."""

    def __init__(self, size, buffers=3):
        self._pairs = [(ctypes.create_string_buffer(b"\1" * size, size), ctypes.create_string_buffer(b"\2" * size, size))
                       for _ in range(buffers)]
        self._next = 0

    def milliseconds(self, size):
        times = []
        for _ in range(2 * len(self._pairs)):
            source, target = self._pairs[self._next % len(self._pairs)]
            self._next += 1
            size = min(size, len(source))
            start = time.perf_counter()
            ctypes.memmove(target, source, size)
            times.append(1000 * (time.perf_counter() - start))
        return sorted(times)[len(times) // 2]
