"""Requests to one server whose every answer is held against the cold run and against what must be cached."""
from prompts import Prompts


def common_prefix(a, b):
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


class Talk:
    def __init__(self, pool, model, test, **flags):
        self.model = model
        self.client = pool.get(model, **flags)
        self.oracle = pool.oracle(model, **flags)
        self.prompts = Prompts(self.client, f"{model.name}/{test}")
        self.client.wait_idle()
        self.client.forget()
        self.client.resync()
        # prompt length: two whole chunks and a rest; the real models are slow on one thread
        self.size = 300 if model.synthetic else 100

    def ask(self, prompt, seen=0, n_predict=6, at_least=None, **options):
        """`seen`: how many leading tokens the server has computed before; no more can be reused."""
        answer = self.client.completion(prompt, n_predict, **options)
        self.judge(answer, prompt, seen, n_predict, at_least, **options)
        self.client.check_counters()
        return answer

    def judge(self, answer, prompt, seen, n_predict=6, at_least=None, **options):
        assert answer.prompt_tokens == len(prompt)
        self._judge_cached(answer, len(prompt), seen, at_least)
        self.oracle.check(answer, prompt, n_predict, **options)

    def _judge_cached(self, answer, length, seen, at_least):
        if at_least is None:
            at_least = self.model.reach(min(seen, length - 1))
        assert at_least <= answer.cached <= seen, (
            f"{answer.cached} of {length} tokens reused, wanted {at_least} to {seen}; {answer.raw.get('skippy')}")

    def repeat(self, prompt, n_predict=6, **options):
        """An exact repeat: at most the last token is computed, on every family."""
        return self.ask(prompt, len(prompt), n_predict, at_least=len(prompt) - 1, **options)

    def chat(self, messages, seen=0, max_tokens=6, at_least=None, **options):
        """The same through /v1/chat/completions; .prompt of the answer is the rendered prompt."""
        answer = self.client.chat(messages, max_tokens, **options)
        self._judge_cached(answer, answer.prompt_tokens, seen, at_least)
        self.oracle.check(answer, messages, max_tokens, route="chat", **options)
        self.client.check_counters()
        return answer

    def known(self, prompt, answer):
        """Tokens whose state is held after an answer: its last token was sampled but not computed."""
        return len(prompt) + max(0, answer.predicted - 1)
