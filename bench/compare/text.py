"""Deterministic prompts: everything is made from a seed and our own word list; no outside text."""
import random

_NOUNS = ("river garden letter market window bridge engine valley forest harbour signal kitchen ladder mountain "
          "teacher village battery library station weather pocket island machine winter summer doctor student "
          "painter cable mirror basket camera ticket planet copper silver hammer needle bottle candle").split()
_VERBS = ("carries follows opens closes repairs counts measures paints finds leaves holds builds lifts reads "
          "writes moves turns joins cleans watches sells keeps").split()
_ADJECTIVES = ("small quiet bright heavy narrow early late broken careful distant empty gentle green hollow "
               "plain round rough steady warm young").split()
_PLACES = ("near the lake,behind the school,under the roof,at the corner,before noon,after the rain,on the table,"
           "by the road,inside the hall,along the coast").split(",")


class Text:
    """A source of text; the same seed gives the same text, another seed another one from its first word on.
    `scale` makes all running text longer or shorter."""

    def __init__(self, *seed, scale=1.0):
        self._random = random.Random(repr(seed))
        self.scale = scale

    def choice(self, options):
        return self._random.choice(options)

    def shuffled(self, items):
        return self._random.sample(items, len(items))

    def name(self):
        return "".join(self._random.choice("bdfgklmnprstvz") + self._random.choice("aeiou") for _ in range(4)).title()

    def sentence(self):
        pick = self._random.choice
        return f"The {pick(_ADJECTIVES)} {pick(_NOUNS)} {pick(_VERBS)} the {pick(_ADJECTIVES)} {pick(_NOUNS)} {pick(_PLACES)}."

    def words(self, count):
        """About `count` words in sentences, times the scale."""
        sentences, so_far = [], 0
        while so_far < count * self.scale:
            sentences.append(self.sentence())
            so_far += len(sentences[-1].split())
        return " ".join(sentences)

    def document(self, words):
        """Begins with a name of its own, so no two documents share a first sentence."""
        return f"{self.name()} {self.name()} report. {self.words(words)}"

    def question(self):
        pick = self._random.choice
        return (f"What does the {pick(_ADJECTIVES)} {pick(_NOUNS)} do, and why does {self.name()} "
                f"ask about the {pick(_NOUNS)}?")


def prompt_of(server, tokens, *seed):
    """Token ids: exactly `tokens` of them, of a document of its own from (nearly) the first token on."""
    ids = server.tokenize(Text(*seed).document(tokens))
    words = tokens
    while len(ids) < tokens:
        words *= 2
        ids = server.tokenize(Text(*seed).document(words))
    return ids[:tokens]


def prompt_text_of(server, tokens, *seed):
    """Text that the server's tokenizer makes into exactly `tokens` tokens, or as near below as words allow."""
    text = server.detokenize(prompt_of(server, tokens, *seed)[1:])
    words = text.strip().split(" ")
    while len(words) > 1 and len(server.tokenize(" ".join(words))) > tokens:
        words.pop()
    text = " ".join(words)
    while len(server.tokenize(text + " the")) <= tokens:
        text += " the"
    return text
