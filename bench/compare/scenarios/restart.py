"""Three conversations; the server stops and starts again; the same three go on.

llama-server at its best saves the slot after each turn and restores it before a conversation's next one, as somebody
would who uses its API for slots.
"""
from contestants import SCRATCH

NAME, GROUP, TITLE = "restart", "tokens", "3 conversations, a restart between their turns"
LANES, ROUNDS = 1, 1
BEST = ("--slot-save-path", SCRATCH)
GATE = "told"
NOTE = ("Restart: skippy keeps nothing on disk yet and evaluates every conversation again; the ideal is that of a "
        "cache that survives. llama-server at its best settings saves and restores its slot through POST /slots.")


def play(ledger, text):
    histories = [[{"role": "system", "content": text.document(350)}] for _ in range(3)]
    for _ in range(2):
        turns(ledger, text, histories)
    ledger.restart_server()
    for _ in range(2):
        turns(ledger, text, histories)


def turns(ledger, text, histories):
    for name, history in enumerate(histories):
        slot(ledger.server, "restore", name, only_if=len(history) > 1)
        history.append({"role": "user", "content": text.question()})
        history.append({"role": "assistant", "content": ledger.chat(history)})
        slot(ledger.server, "save", name)


def slot(server, action, name, only_if=True):
    if only_if and server.saves_slots():
        server.json("POST", f"/slots/0?action={action}", {"filename": f"conversation-{name}.bin"})
