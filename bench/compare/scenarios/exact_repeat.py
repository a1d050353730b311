"""The same chat prompt five times, with another conversation in between."""
NAME, GROUP, TITLE = "exact_repeat", "tokens", "exact repeat, 5 times, once after another chat"
LANES, ROUNDS = 1, 1


def play(ledger, text):
    messages = [{"role": "system", "content": text.document(250)}, {"role": "user", "content": text.question()}]
    other = [{"role": "system", "content": text.document(250)}, {"role": "user", "content": text.question()}]
    for prompt in (messages, messages, messages, other, messages, messages):
        ledger.chat(prompt)
