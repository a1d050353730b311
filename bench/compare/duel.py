"""Times two servers against each other so that the numbers can be believed, or says that they cannot.

Three servers run: A, another instance of A, and B. First A is timed against its twin (A/A), then against B, then
against its twin again, always in rounds of A, B, B, A; only one server works at a time. Unless the twins are
alike within the noise limit, no ratio is given.
"""
from contextlib import ExitStack

import stats
from machine import Activity, cpu_seconds
from servers import Server


class Duel:
    """`with Duel(a, b, settings) as duel: duel.time(sample, rounds, limit)`; all servers live that long."""

    def __init__(self, a, b, settings):
        self._contestants = {"a": a, "twin": a, "b": b}
        self._settings = settings

    def __enter__(self):
        with ExitStack() as stack:
            self.servers = {role: stack.enter_context(Server(contestant, self._settings))
                            for role, contestant in self._contestants.items()}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def time(self, sample, rounds, limit, progress=lambda note: None):
        """As many rounds of A/A, half of them before and half after, as of A/B. `sample(server, key)` returns a time
        (any unit); the key is new in each leg, the same for both servers of a round. Returns a dict with the ratio
        time(A)/time(B), its spread, the A/A check and the raw samples; under "cpu" the same of the servers' own CPU
        time, which other people's work on the machine disturbs less.
        """
        activity = Activity([server.pid for server in self.servers.values()])
        checks = max(3, (rounds + 1) // 2)
        samples, cpu_samples = {"a_a": [], "a_b": []}, {"a_a": [], "a_b": []}
        for server in self.servers.values():   # first touch of code and memory
            sample(server, ("warm-up",))

        def play(kind, other, count, keyword):
            for i in range(count):
                times, cpu = [], []
                for leg, role in enumerate(("a", other, other, "a")):
                    server = self.servers[role]
                    before = cpu_seconds(server.pid)
                    times.append(sample(server, (keyword, i, leg in (2, 3))))
                    server.settle()
                    cpu.append(cpu_seconds(server.pid) - before)
                samples[kind].append(times)
                cpu_samples[kind].append(cpu)
                progress(f"{keyword} round {i + 1}/{count}")

        play("a_a", "twin", checks, "A/A before")
        play("a_b", "b", rounds, "A/B")
        play("a_a", "twin", checks, "A/A after")
        return {**_judged(samples, limit),
                "cores_used_by_others": round(activity.cores_used_by_others(), 2),
                "cpu": _judged(cpu_samples, limit)}


def _judged(samples, limit):
    same = stats.spread([stats.round_ratio(*times) for times in samples["a_a"]])
    return {
        "a": stats.spread([t for four in samples["a_b"] for t in (four[0], four[3])]).as_dict(),
        "b": stats.spread([t for four in samples["a_b"] for t in (four[1], four[2])]).as_dict(),
        "ratio": stats.spread([stats.round_ratio(*times) for times in samples["a_b"]]).as_dict(),
        "same_against_same": same.as_dict(),
        "noise_limit": limit,
        "refused": stats.refusal(same, limit),
        "samples": samples,
    }
