"""What servers tell, and what is derived, of the bytes that their caches hold."""
import unittest

from cache_bytes import in_log
from machine import llama_commit_of
from model_state import StateBytes

LOG = """
0.1 I srv        update:  - cache state: 1 prompts, 2.500 MiB (limits: 8192.000 MiB, 4096 tokens, 99 est)
0.2 I slot create_chec: id  0 | task 7 | created context checkpoint 1 of 32 (pos_min = 5, pos_max = 5, n_tokens = 6, size = 0.500 MiB)
0.3 I slot create_chec: id  1 | task 7 | created context checkpoint 4 of 32 (pos_min = 5, pos_max = 5, n_tokens = 6, size = 0.500 MiB)
0.4 I slot create_chec: id  0 | task 9 | created context checkpoint 2 of 32 (pos_min = 5, pos_max = 5, n_tokens = 6, size = 0.250 MiB)
0.5 I srv        update:  - cache state: 3 prompts, 6.000 MiB (limits: 8192.000 MiB, 4096 tokens, 99 est)
"""


class CacheBytesTest(unittest.TestCase):
    def test_llama_server_tells_its_prompt_cache_in_its_log(self):
        told = in_log(LOG)
        self.assertEqual(told["host"], {"bytes": 6 * 2**20, "source": "measured", "prompts": 3})
        self.assertEqual(told["checkpoints"], {"bytes": round(2.5 * 2**20), "source": "derived"})

    def test_a_log_without_the_line_means_that_nothing_was_put_there(self):
        self.assertEqual(in_log("")["host"]["bytes"], 0)

    def test_state_is_rows_of_all_tokens_window_rows_of_the_last_and_recurrent_memory(self):
        state = StateBytes(token=10, window_token=100, window=4, snapshot=1000)
        self.assertEqual(state.of(0), 0)
        self.assertEqual(state.of(3), 30 + 300 + 1000)
        self.assertEqual(state.of(20), 200 + 400 + 1000)
        self.assertEqual(state.of(20, whole_window=True), 200 + 2000 + 1000)


class BuildTest(unittest.TestCase):
    def test_the_llama_commit_is_read_from_either_programs_version(self):
        for version in ("skippy 0.1.0 (llama.cpp b1-de3ff81)", "version: 0.5.0-dev (build 1, commit de3ff81)",
                        "version: 6123 (de3ff81)"):
            self.assertEqual(llama_commit_of(version), "de3ff81")
        for version in ("skippy 0.1.0", "version: 6123", None):
            self.assertIsNone(llama_commit_of(version))


if __name__ == "__main__":
    unittest.main()
