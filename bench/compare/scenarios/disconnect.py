"""A client hangs up in the middle of a long prefill and asks again at once; three times."""
import time

NAME, GROUP, TITLE = "disconnect", "tokens", "hang up in the middle of a long prompt, ask again"
LANES, ROUNDS = 1, 1


def play(ledger, text):
    def messages():
        return [{"role": "system", "content": text.document(1700)}, {"role": "user", "content": text.question()}]

    start = time.perf_counter()
    ledger.chat(messages(), max_tokens=4)     # how long a whole prefill takes here
    whole_ms = 1000 * (time.perf_counter() - start)
    for part in (0.3, 0.5, 0.8):
        request = messages()
        ledger.chat_abandoned(request, part * whole_ms)
        ledger.chat(request, max_tokens=4)
