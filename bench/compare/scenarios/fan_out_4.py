"""Twelve questions about one document, four at a time."""
from scenarios.fan_out_1 import conversations

NAME, GROUP, TITLE = "fan_out_4", "tokens", "12 questions on one document, four at a time"
LANES, ROUNDS = 4, 3


def play(ledger, text):
    questions = conversations(text)
    for i in range(0, len(questions), LANES):
        ledger.chat_together(questions[i:i + LANES])
