"""Accounting of a scenario, on a server that is a script."""
import unittest

from ledger import Ledger, compare_answers, first_difference, summarise
from servers import Reply


class ScriptedServer:
    """Knows prompts by their first message's content: a list of token ids. Answers come from a queue."""

    def __init__(self, replies):
        self._replies, self.total = list(replies), 0

    def evaluated_total(self):
        return self.total

    def chat_tokens(self, messages):
        return messages[0]["content"]

    def chat(self, messages, max_tokens, **_options):
        reply = self._replies.pop(0)
        self.total += reply.evaluated
        return reply

    def abandon(self, path, body, after_ms):
        self.total += 3

    def forget_connection(self):
        pass


def chat(tokens):
    return [{"role": "user", "content": tokens}]


def reply(prompt, cached, tokens=(50,), gaps=(9.0,)):
    return Reply(text="x", prompt_tokens=prompt, cached=cached, evaluated=prompt - cached, tokens=list(tokens),
                 gaps=list(gaps))


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

    def test_wrong_accounting_is_named(self):
        wrong = {"prompt": [1, 2, 3], "ideal": 3, "branch": False, "told_prompt": 4, "cached": 1, "evaluated": 2}
        problems = summarise([wrong], 5)["problems"]
        self.assertEqual(len(problems), 3)

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
