"""The order of play, and what becomes of the legs."""
import unittest
from types import SimpleNamespace

from duel import Duel


def play(times, c=False, rounds=2, checks=1):
    """`times`: {role: time}; returns the samples and the order of play."""
    duel, order = Duel(None, None, None, c="c" if c else None), []
    duel.servers = {role: SimpleNamespace(role=role, settle=lambda: None) for role in ("a", "twin", "b", *"c" * c)}

    def sample(server, key):
        if key != ("warm-up",):
            order.append((server.role, key))
        return {"wall": times[server.role]}
    return duel.collect(sample, rounds, checks), order


class DuelTest(unittest.TestCase):
    def test_a_round_goes_there_and_back_and_both_servers_get_the_same_keys(self):
        samples, order = play({"a": 6, "twin": 5, "b": 2})
        self.assertEqual("".join(role[0] for role, _ in order), "atta" + "abba" * 2 + "atta")
        self.assertEqual(samples, {"wall": {"a_a": [[6, 5, 5, 6]] * 2, "a_b": [[6, 2, 2, 6]] * 2}})
        keys = [key for _, key in order]
        self.assertEqual(keys[:4], [("A/A before", 0, False)] * 2 + [("A/A before", 0, True)] * 2)
        self.assertEqual(len(set(keys)), 8)

    def test_a_third_server_is_timed_against_the_second_in_the_same_rounds(self):
        samples, order = play({"a": 6, "twin": 6, "b": 2, "c": 4}, c=True, rounds=1)
        self.assertEqual("".join(role[0] for role, _ in order), "atta" + "acbbca" + "atta")
        self.assertEqual(samples["wall"], {"a_a": [[6, 6, 6, 6]] * 2, "a_b": [[6, 2, 2, 6]], "c_b": [[4, 2, 2, 4]]})


if __name__ == "__main__":
    unittest.main()
