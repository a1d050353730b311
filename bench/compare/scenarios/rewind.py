"""A conversation is rewound and edited: the last answer again, an earlier question changed, a change in the middle
of the long first message, and back to the first version."""
NAME, GROUP, TITLE = "rewind", "tokens", "rewind and edit: regenerate, earlier turn, long message, back"
LANES, ROUNDS = 1, 1
# The slot's prompt goes to the prompt cache before each request, not only when most of it is about to be lost: earlier
# versions stay there.
BEST = ("--slot-prompt-similarity", "0")


def play(ledger, text):
    opening, ending = text.document(400), text.words(300)
    history = [{"role": "system", "content": f"{opening} {ending}"}]
    for _ in range(4):
        history.append({"role": "user", "content": text.question()})
        history.append({"role": "assistant", "content": ledger.chat(history)})

    ledger.chat(history[:-1])                                                  # the last answer again
    ledger.chat(history[:3] + [{"role": "user", "content": text.question()}])  # another second question
    edited = {"role": "system", "content": f"{opening} {text.sentence()} {ending}"}
    ledger.chat([edited, *history[1:-1]])                                      # a sentence more, mid-message
    ledger.chat([edited, *history[1:], {"role": "user", "content": text.question()}])
    ledger.chat([*history, {"role": "user", "content": text.question()}])      # on with the first version
