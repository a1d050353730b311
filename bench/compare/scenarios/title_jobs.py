"""A main conversation whose front end asks for a title and for follow-ups after each turn, as chat front ends do:
another system prompt, and the transcript so far as text."""
NAME, GROUP, TITLE = "title_jobs", "tokens", "main conversation with title jobs between the turns"
LANES, ROUNDS = 1, 1


def play(ledger, text):
    task = f"You are {text.name()}, who names conversations. {text.words(60)} Answer with the title only."
    history = [{"role": "system", "content": text.document(350)}]
    for _ in range(5):
        history.append({"role": "user", "content": text.question()})
        history.append({"role": "assistant", "content": ledger.chat(history)})
        transcript = "\n".join(f"{message['role']}: {message['content']}" for message in history[1:])
        ledger.chat([{"role": "system", "content": task}, {"role": "user", "content": transcript}], max_tokens=8)
