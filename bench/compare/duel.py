"""Times two servers against each other so that the numbers can be believed, or says that they cannot.

Three servers run: A, another instance of A, and B. First A is timed against its twin (A/A), then against B, then
against its twin again, always in rounds of A, B, B, A; only one server works at a time. Unless the twins are
alike within the noise limit, no ratio is given. A fourth, C, may be timed against B in the same rounds
(A, C, B, B, C, A: a machine that gets steadily slower favours none of them).
"""
from contextlib import ExitStack

import stats
from machine import Activity, cpu_seconds
from servers import Server


class Duel:
    """`with Duel(a, b, settings) as duel: duel.time(sample, rounds, limit)`; all servers live that long.
    `duel.servers` has them by role: "a", "twin", "b", and "c" where there is one."""

    def __init__(self, a, b, settings, c=None):
        self._contestants = {"a": a, "twin": a, "b": b, **({"c": c} if c else {})}
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

        def both_clocks(server, key):
            before = cpu_seconds(server.pid)
            wall = sample(server, key)
            server.settle()
            return {"wall": wall, "cpu": cpu_seconds(server.pid) - before}

        timed = self.collect(both_clocks, rounds, max(3, (rounds + 1) // 2), progress)
        return {**judged(timed["wall"], limit),
                "cores_used_by_others": round(activity.cores_used_by_others(), 2),
                "cpu": judged(timed["cpu"], limit)}

    def collect(self, sample, rounds, checks, progress=lambda note: None):
        """The raw samples: `checks` rounds of A/A, `rounds` of A/B, and `checks` of A/A again. `sample(server, key)`
        returns a dict of times by name, the same names each time. Returns {name: {"a_a": [...], "a_b": [...]}}, a
        list of the four legs' times for each round; with a C also "c_b".
        """
        samples = {}
        for server in self.servers.values():   # first touch of code and memory
            sample(server, ("warm-up",))

        def play(kind, roles, count, keyword):
            for i in range(count):
                legs = {}
                for back, role in [(False, role) for role in roles] + [(True, role) for role in reversed(roles)]:
                    server = self.servers[role]
                    legs[role, back] = sample(server, (keyword, i, back))
                    server.settle()
                _add_round(samples, kind, roles, legs)
                progress(f"{keyword} round {i + 1}/{count}")

        against = ["a", *(["c"] if "c" in self.servers else []), "b"]
        play("a_a", ["a", "twin"], checks, "A/A before")
        play("a_b", against, rounds, "A/B")
        play("a_a", ["a", "twin"], checks, "A/A after")
        return samples


def _add_round(samples, kind, roles, legs):
    """Sorts a round's legs into fours of (first, last, last, first), one for each role against the last."""
    *others, last = roles
    for role in others:
        pair = kind if role == "a" else f"{role}_b"
        for name in legs[role, False]:
            four = [legs[role, False][name], legs[last, False][name], legs[last, True][name], legs[role, True][name]]
            samples.setdefault(name, {}).setdefault(pair, []).append(four)


def judged(samples, limit):
    """The ratio A/B of the samples of one name, its spread and the A/A check; refused beyond `limit`."""
    same = stats.spread([stats.round_ratio(*times) for times in samples["a_a"]])
    return {
        **compared(samples["a_b"]),
        "same_against_same": same.as_dict(),
        "noise_limit": limit,
        "refused": stats.refusal(same, limit),
        "samples": samples,
    }


def compared(rounds):
    """Both sides' times and their ratio, of rounds of A, B, B, A."""
    return {
        "a": stats.spread([t for four in rounds for t in (four[0], four[3])]).as_dict(),
        "b": stats.spread([t for four in rounds for t in (four[1], four[2])]).as_dict(),
        "ratio": stats.spread([stats.round_ratio(*times) for times in rounds]).as_dict(),
    }
