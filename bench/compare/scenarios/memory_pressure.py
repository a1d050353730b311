"""More conversations than the cache can hold: about a third of them fits. They come back, the last ones more often."""
NAME, GROUP, TITLE = "memory_pressure", "tokens", "24 conversations of which a third fits the cache, 60 turns"
LANES, ROUNDS = 1, 1
# Not the ideal, which forgets nothing: no cache under this cap can reach it.
GATE = "peer"
NOTE = "Memory pressure: both servers have the same cap on their cache; the ideal is that of a cache without one."
CONVERSATIONS, TURNS = 24, 60
TOKENS = 450    # of one conversation in the end, about
RECENT = 4      # of these the next one is half of the time


def settings(bench):
    all_of_them = CONVERSATIONS * bench.state.of(round(TOKENS * bench.text_scale))
    return bench.settings_for(lanes=LANES, cache_ram=max(1, round(all_of_them / 3 / 2**20)))


def play(ledger, text):
    histories = [[{"role": "system", "content": text.document(250)}] for _ in range(CONVERSATIONS)]
    recent = []
    for _ in range(TURNS):
        which = text.choice(recent[-RECENT:] if recent and text.choice((True, False)) else range(CONVERSATIONS))
        recent = [other for other in recent if other != which] + [which]
        history = histories[which]
        history.append({"role": "user", "content": text.question()})
        history.append({"role": "assistant", "content": ledger.chat(history)})
