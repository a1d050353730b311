"""Two conversations take turns on one lane."""
NAME, GROUP, TITLE = "alternate_2", "tokens", "2 conversations alternating on one lane"
LANES, ROUNDS = 1, 1


def alternate(ledger, text, conversations, turns):
    histories = [[{"role": "system", "content": text.document(300)}] for _ in range(conversations)]
    for _ in range(turns):
        for history in histories:
            history.append({"role": "user", "content": text.question()})
            history.append({"role": "assistant", "content": ledger.chat(history)})


def play(ledger, text):
    alternate(ledger, text, conversations=2, turns=5)
