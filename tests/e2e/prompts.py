"""Prompts as token lists of exact length. Seeded by a tag, so each test has its own and repeats are equal."""
import random

WORDS = ("river stone lantern garden winter copper music harbour letter engine orchard silver window market "
         "bridge teacher thunder basket planet kitchen forest ticket morning castle pepper island mirror").split()


def text(tag, words):
    rng = random.Random(tag)
    out = []
    while len(out) < words:
        n = rng.randint(5, 9)
        sentence = [rng.choice(WORDS) for _ in range(n)]
        out += [*sentence[:2], "by the", *sentence[2:]]
        out[-1] += "."
    return " ".join(out[:words])


class Prompts:
    """Token lists in one model's vocabulary."""

    def __init__(self, client, test):
        self._client = client
        self._test = test
        self._made = {}  # tag -> tokens: a tag means one text

    def __call__(self, tag, length, after=()):
        """`length` tokens that begin with none of the tokens in `after`, nor, while there are others, with the
        first token of another tag's text."""
        if (tag, length) in self._made:
            return self._made[tag, length]
        taken = {tokens[0] for tokens in self._made.values()}
        candidates = []
        for attempt in range(30):
            tokens = self._client.tokenize(text(f"{self._test}/{tag}/{attempt}", 2 * length + 8), add_special=False)
            tokens = tokens[1 + attempt % 4:][:length]
            assert len(tokens) == length
            if tokens[0] not in after:
                candidates.append(tokens)
                if tokens[0] not in taken:
                    break
        assert candidates, "no prompt with another first token"
        self._made[tag, length] = candidates[-1]
        return candidates[-1]

    def tails(self, count, length):
        """Lists that part at their first token."""
        tails = []
        for i in range(count):
            tails.append(self(f"tail{i}", length, after=[t[0] for t in tails]))
        return tails
