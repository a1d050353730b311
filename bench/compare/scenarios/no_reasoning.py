"""A reasoning model's conversation: the answer goes back into the history without its thinking. What was generated is
never sent again; here the second half of each text stands for the answer proper."""
NAME, GROUP, TITLE = "no_reasoning", "tokens", "6 turns of a reasoning model, its thinking not sent back"
LANES, ROUNDS = 1, 1


def play(ledger, text):
    history = [{"role": "system", "content": text.document(350)}]
    for _ in range(6):
        history.append({"role": "user", "content": f"{text.words(60)} {text.question()}"})
        generated = ledger.chat(history, max_tokens=48)
        history.append({"role": "assistant", "content": generated[len(generated) // 2:].strip() or "So it is."})
