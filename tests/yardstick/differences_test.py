"""What breaks the yardstick, and what the wrapper makes of llama-server's command line."""
import unittest

import differences
import wrapper
from differences import Entry

PURPOSE = Entry("a.py::test_x[*]", "purpose", "no")
MODEL = Entry("a.py::test_y", "model", "hub", "assert 1 == 2")


class Judge(unittest.TestCase):
    def judge(self, outcomes, details=None):
        return differences.judge(outcomes, details or {}, [PURPOSE, MODEL])

    def test_listed_failures_are_expected(self):
        unexpected, stale, expected = self.judge({"a.py::test_x[1]": "failed", "a.py::test_y": "failed"},
                                                 {"a.py::test_x[1]": "boom", "a.py::test_y": "assert 1 == 2"})
        self.assertEqual((unexpected, stale), ({}, []))
        self.assertEqual(expected, {"purpose": ["a.py::test_x[1]"], "model": ["a.py::test_y"]})

    def test_an_unlisted_failure_and_other_words_break_the_run(self):
        unexpected, _, _ = self.judge({"a.py::test_x": "failed", "a.py::test_y": "failed"},
                                      {"a.py::test_x": "boom", "a.py::test_y": "assert 1 == 3"})
        self.assertEqual(set(unexpected), {"a.py::test_x", "a.py::test_y"})

    def test_a_listed_test_that_passes_or_is_gone_is_stale(self):
        _, stale, _ = self.judge({"a.py::test_x[1]": "passed"})
        self.assertEqual(len(stale), 2)

    def test_words_are_the_same_in_every_run(self):
        self.assertEqual(differences.words("assert 0x7f01 == 2.5\nline\nResponse(id=1)"), "assert # == #\nline")


class Wrapper(unittest.TestCase):
    GIVEN = ["--hf-repo", "r", "--offline", "--ctx-size", "512", "--parallel", "2", "--seed", "1"]

    def test_ours_divides_the_context_and_gets_the_local_model(self):
        self.assertEqual(wrapper.command(self.GIVEN, "s", "m.gguf", True)[2:],
                         ["--no-self-test", "--parallel", "2", "--seed", "1", "--ctx-size", "256",
                          "--model", "m.gguf", "--threads", "1"])

    def test_the_reference_keeps_its_context(self):
        self.assertEqual(wrapper.command(self.GIVEN, "s", "m.gguf", False),
                         ["s", "--parallel", "2", "--seed", "1", "--ctx-size", "512", "--model", "m.gguf", "--threads", "1"])

    def test_slots_of_one_pool_get_the_whole(self):
        words = wrapper.command([*self.GIVEN, "--kv-unified"], "s", "m.gguf", True)
        self.assertEqual(words[words.index("--ctx-size") + 1], "512")
        self.assertNotIn("--kv-unified", words)


if __name__ == "__main__":
    unittest.main()
