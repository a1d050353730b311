"""What the scenarios about single options make of their samples."""
import unittest

from scenarios import chunk_size, hot_or_host, idle_prefill


class HotOrHostTest(unittest.TestCase):
    def test_a_round_is_two_legs_of_each_tier(self):
        def leg(cpu_ms, **more):
            return {"ms": 2 * cpu_ms, "cpu_ms": cpu_ms, "restore_ms": 1, "bytes": 2**20, "evaluated": 7, **more}
        row = hot_or_host.judged({"hot": [leg(c) for c in (1, 3, 2, 2)],
                                  "host": [leg(c, memcpy_ms=0.5) for c in (5, 7, 4, 4)]})
        self.assertEqual((row["host_over_hot_cpu"]["low"], row["host_over_hot_cpu"]["high"]), (2.0, 3.0))
        self.assertEqual(row["medians"]["host"]["memcpy_ms"], 0.5)


class IdlePrefillTest(unittest.TestCase):
    def test_conversations_are_compared_by_their_sums(self):
        def side(first, evaluated, after):
            return {"first_ms": first, "first_cpu_ms": first, "evaluated": evaluated, "cpu_ms": 50,
                    "after_cpu_ms": after}
        turns = [{"without": side(30, 300, 0), "with": side(10, 100, 25), "equal": True},
                 {"without": side(10, 100, 0), "with": side(10, 101, 15), "equal": False}]
        row = idle_prefill.judged([turns])
        self.assertEqual(row["earlier_cpu"]["median"], 2.0)
        self.assertEqual(row["evaluated"], {"without": 400, "with": 201})
        self.assertEqual(row["ahead_cpu_ms"]["median"], 20)
        self.assertEqual(row["turns_that_evaluate_more"], 1)
        self.assertIn("1 of 2 answers equal", row["value"])


class ChunkSizeTest(unittest.TestCase):
    def test_speed_is_told_against_the_reference_of_the_same_round(self):
        def sample(cpu_ms):
            return {"cold_ms": cpu_ms, "cold_cpu_ms": cpu_ms, "record_ms": 3, "restore_ms": 1}
        row = chunk_size.judged([sample(10), sample(20)], [sample(20), sample(40)],
                                {"rewind, bit": {"evaluated": 300, "ideal": 200, "bytes": 2**20}})
        self.assertEqual(row["speed_cpu"]["median"], 2.0)
        self.assertIn("rewind, bit: 1.50 of ideal, 1.0 MiB", row["value"])


if __name__ == "__main__":
    unittest.main()
