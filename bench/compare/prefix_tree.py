"""What a perfect prefix cache would have to evaluate.

The tree holds every token sequence whose state has been computed: prompts, and the tokens generated after them
but the last one (a sampled token is evaluated only when the next one is wanted). For a prompt of n tokens of
which the first `known` are in the tree, a perfect cache evaluates

    0        when exactly this prompt was sent before (its logits are known),
    n-known  otherwise, but at least 1: the logits at its end have to be computed.

A request that arrives while others run counts as sent after them: a perfect server makes it wait for the
common prefix instead of computing it twice.
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Expectation:
    known: int       # leading tokens in the tree
    evaluated: int   # what a perfect cache evaluates
    branch: bool     # the prompt leaves a stored sequence before that sequence's end


class PrefixTree:
    def __init__(self):
        self._root = {}
        self._prompts = set()

    def expect(self, prompt):
        node, known = self._root, 0
        for token in prompt:
            child = node.get(token)
            if child is None:
                break
            node, known = child, known + 1
        if tuple(prompt) in self._prompts:
            return Expectation(known, 0, False)
        return Expectation(known, max(1, len(prompt) - known), known > 0 and bool(node))

    def add_prompt(self, prompt):
        self.add_partial(prompt)
        self._prompts.add(tuple(prompt))

    def add_partial(self, tokens):
        """Computed, but its end was never reached as a prompt's end."""
        node = self._root
        for token in tokens:
            node = node.setdefault(token, {})

    def add_generated(self, prompt, generated):
        self.add_partial(list(prompt) + list(generated[:-1]))
