"""An agent: a long instruction with tools, then eight rounds of a growing tool output."""
NAME, GROUP, TITLE = "agent_loop", "tokens", "agent loop, 8 rounds, growing tool output"
LANES, ROUNDS = 1, 1


def play(ledger, text):
    tools = "\n".join(f"- {text.name()}(path, count): {text.sentence()}" for _ in range(20))
    messages = [{"role": "system", "content": f"You are {text.name()}. Use the tools.\n{tools}"},
                {"role": "user", "content": text.question()}]
    for step in range(8):
        answer = ledger.chat(messages, max_tokens=24)
        messages = messages + [{"role": "assistant", "content": answer},
                               {"role": "user", "content": f"Tool output {step}: {text.words(30 + 25 * step)}"}]
