"""Accounting of a scenario, on a server that is a script."""
import unittest

from http_client import BenchError
from ledger import Ledger, compare_answers, first_difference, summarise
from replies import Reply


class ScriptedServer:
    """Knows prompts by their first message's content: a list of token ids. Answers come from a queue."""

    def __init__(self, replies):
        self._replies, self.total = list(replies), 0

    def evaluated_total(self):
        return self.total

    def chat_tokens(self, messages):
        return messages[0]["content"]

    def chat_streamed(self, messages, max_tokens, **_options):
        reply = self._replies.pop(0)
        self.total += reply.evaluated
        return reply

    def abandon(self, path, body, after_ms):
        self.total += 3

    def restart(self):
        self.total = 0

    def forget_connection(self):
        pass


def chat(tokens):
    return [{"role": "user", "content": tokens}]


def reply(prompt, cached, tokens=(50,), gaps=(9.0,)):
    return Reply(text="x", prompt_tokens=prompt, cached=cached, evaluated=prompt - cached, tokens=list(tokens),
                 gaps=list(gaps), generated=len(tokens), first_ms=10.0, last_ms=10.0 + 20.0 * (len(tokens) - 1), total_ms=80.0)


class LedgerTest(unittest.TestCase):
    def test_evaluated_is_held_against_the_ideal(self):
        ledger = Ledger(ScriptedServer([reply(4, 0), reply(4, 3), reply(5, 2)]))
        for tokens in ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 8, 9]):
            ledger.chat(chat(tokens))
        summary = ledger.summary()
        self.assertEqual((summary["ideal"], summary["evaluated"], summary["branches"]), (4 + 0 + 2, 4 + 1 + 3, 1))
        self.assertEqual(summary["most_excess_of_one"], 1)
        self.assertEqual(summary["problems"], [])

    def test_generated_tokens_count_as_known(self):
        ledger = Ledger(ScriptedServer([reply(2, 0, tokens=(7, 8, 9), gaps=(1, 1, 1)), reply(5, 4)]))
        ledger.chat(chat([1, 2]))
        ledger.chat(chat([1, 2, 7, 8, 5]))
        self.assertEqual(ledger.summary()["ideal"], 2 + 1)

    def test_requests_sent_together_share_their_prefix_in_the_ideal(self):
        ledger = Ledger(ScriptedServer([reply(3, 0), reply(3, 2)]))
        ledger.chat_together([chat([1, 2, 3]), chat([1, 2, 4])])
        self.assertEqual(ledger.summary()["ideal"], 3 + 1)

    def test_an_abandoned_request_and_its_retry_are_ideally_evaluated_once(self):
        ledger = Ledger(ScriptedServer([reply(5, 3)]))
        ledger.chat_abandoned(chat([1, 2, 3, 4, 5]), after_ms=0)
        ledger.chat(chat([1, 2, 3, 4, 5]))
        summary = ledger.summary()
        self.assertEqual((summary["ideal"], summary["evaluated"]), (5, 3 + 2))

    def test_a_restart_begins_the_servers_count_anew_but_not_the_ideal(self):
        ledger = Ledger(ScriptedServer([reply(3, 0), reply(4, 0)]))
        ledger.chat(chat([1, 2, 3]))
        ledger.restart_server()
        ledger.chat(chat([1, 2, 3, 4]))
        summary = ledger.summary()
        self.assertEqual((summary["ideal"], summary["evaluated"], summary["problems"]), (3 + 1, 3 + 4, []))

    def test_times_and_tiers_are_told(self):
        ours = Reply(prompt_tokens=4, cached=3, evaluated=1, tokens=[5, 6, 7], gaps=[1, 1, 1], generated=3, first_ms=30.0,
                     last_ms=70.0, total_ms=71.0, skippy={"hit_kind": "warm", "cached_tokens_details": {"device": 0, "host": 3}})
        ledger = Ledger(ScriptedServer([reply(4, 0, tokens=(5, 6, 7), gaps=(1, 1, 1)), ours]))
        for tokens in ([1, 2, 3, 4], [1, 2, 3, 9]):
            ledger.chat(chat(tokens))
        summary = ledger.summary()
        self.assertEqual(summary["cached_by_tier"], {"slot or prompt cache": 0, "device": 0, "host": 3})
        self.assertEqual(summary["first_ms"], {"p50": 20.0, "p95": 29.0, "p99": 29.8})
        self.assertEqual(summary["total_ms"]["p50"], 75.5)
        self.assertEqual(summary["decode_per_s"], 50.0)

    def test_a_repeat_from_a_decoded_result_is_a_tier_of_its_own(self):
        told = Reply(cached=9, skippy={"hit_kind": "decoded_result", "cached_tokens_details": {"device": 0, "host": 9}})
        self.assertEqual(told.cached_by_tier(), {"decoded_result": 9})

    def test_what_was_answered_before_a_server_was_lost_is_kept(self):
        class LosesTheSecond(ScriptedServer):
            def chat_streamed(self, messages, max_tokens, **options):
                if not self._replies:
                    raise BenchError("lost")
                return super().chat_streamed(messages, max_tokens, **options)

        ledger = Ledger(LosesTheSecond([reply(3, 0)]))
        self.assertEqual(ledger.partial_summary(), {})
        ledger.chat(chat([1, 2, 3]))
        with self.assertRaises(BenchError):
            ledger.chat(chat([1, 2, 3, 4]))
        summary = ledger.partial_summary()
        self.assertEqual((summary["requests"], summary["ideal"], summary["evaluated"]), (1, 3, 3))

    def test_wrong_accounting_is_named(self):
        wrong = {"prompt": [1, 2, 3], "ideal": 3, "branch": False, "told_prompt": 4, "cached": 1, "evaluated": 2,
                 "tiers": {"host": 2}, "first_ms": 1, "total_ms": 1, "generated": 1, "decode_ms": 0}
        problems = summarise([wrong], 5)["problems"]
        self.assertEqual(len(problems), 4)

    def test_only_answers_to_equal_prompts_are_compared(self):
        def entry(prompt, tokens):
            return {"prompt": prompt, "tokens": tokens, "gaps": [3.0, 0.1, 2.0]}
        ours = [entry([1], [5, 6, 7]), entry([2], [5, 6, 7]), entry([3], [5])]
        theirs = [entry([1], [5, 6, 7]), entry([2], [5, 9, 7])]
        self.assertEqual(compare_answers(ours, theirs),
                         {"compared": 2, "equal": 1, "partings": [{"position": 1, "gap": 0.1}]})

    def test_a_shorter_answer_parts_at_its_end(self):
        self.assertEqual(first_difference([1, 2], [1, 2, 3]), 2)
        self.assertIsNone(first_difference([1, 2], [1, 2]))


if __name__ == "__main__":
    unittest.main()
