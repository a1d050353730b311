"""Twelve questions about one document, one at a time."""
NAME, GROUP, TITLE = "fan_out_1", "tokens", "12 questions on one document, one at a time"
LANES, ROUNDS = 1, 1


def conversations(text, count=12):
    document = text.document(900)
    return [[{"role": "system", "content": document}, {"role": "user", "content": text.question()}]
            for _ in range(count)]


def play(ledger, text):
    for messages in conversations(text):
        ledger.chat(messages)
