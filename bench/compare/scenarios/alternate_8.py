"""Eight conversations take turns on one lane."""
from scenarios.alternate_2 import alternate

NAME, GROUP, TITLE = "alternate_8", "tokens", "8 conversations alternating on one lane"
LANES, ROUNDS = 1, 1


def play(ledger, text):
    alternate(ledger, text, conversations=8, turns=3)
