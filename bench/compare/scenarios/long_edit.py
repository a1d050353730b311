"""One long message in which a sentence is changed: in the middle, at three quarters, at nine tenths, near the end. An
editor that sends the whole file again. Every version follows from the one before."""
NAME, GROUP, TITLE = "long_edit", "tokens", "a sentence changed inside one long message, 4 times"
LANES, ROUNDS = 1, 1
PLACES = (0.5, 0.75, 0.9, 0.95)      # of the edits, from the message's beginning
LENGTHS, REST = (16000, 4000), 600   # tokens: the longest message that leaves the rest of the context free


def play(ledger, text):
    sentences = message_of(ledger.server, text)
    messages = [{"role": "system", "content": f"You are {text.name()}, an editor."},
                {"role": "user", "content": " ".join(sentences)}]
    ledger.chat(messages)
    for place in PLACES:
        sentences[round(place * len(sentences))] = text.sentence()
        messages[1] = {"role": "user", "content": " ".join(sentences)}
        ledger.chat(messages)


def message_of(server, text):
    """Sentences of about as many tokens as this context allows, times the text's scale."""
    room = server.settings.context - REST
    wanted = text.scale * next((length for length in LENGTHS if length <= room), room)
    sample = [text.sentence() for _ in range(40)]
    of_one = len(server.tokenize(" ".join(sample), special=False)) / len(sample)
    return [text.sentence() for _ in range(round(wanted / of_one))]
