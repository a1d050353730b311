"""Retrieval: the same six documents in another order each time, the question at the end. Exact reuse ends where the
order differs; the ideal is the perfect prefix tree's, which cannot do better either."""
NAME, GROUP, TITLE = "reordered_documents", "tokens", "10 questions on the same 6 documents, in another order each time"
LANES, ROUNDS = 1, 1


def play(ledger, text):
    task = f"You are {text.name()}. Answer from these documents. {text.words(40)}"
    documents = [text.document(110) for _ in range(6)]
    for _ in range(10):
        content = "\n\n".join([*text.shuffled(documents), text.question()])
        ledger.chat([{"role": "system", "content": task}, {"role": "user", "content": content}])
