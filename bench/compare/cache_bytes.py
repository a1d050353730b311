"""What a server's cache holds, by place, each marked "measured" (the server tells it) or "derived" (from the number of
tokens and what the model's state takes). `host` is memory beside the lanes, `lanes` what the lanes' own cells hold."""
import re

_STATE = re.compile(r"cache state: (\d+) prompts, ([\d.]+) MiB")
_CHECKPOINT = re.compile(r"id +(\d+) \|.*created context checkpoint (\d+) of \d+ .*size = ([\d.]+) MiB")
# llama-server tells its prompt cache's size in its log only, from this level on: a few lines a request.
VERBOSITY = ("-lv", "4")


def held_by(server, state):
    """`state`: the model's StateBytes."""
    return _ours(server, state) if server.contestant.kind == "skippy" else _theirs(server, state)


def _ours(server, state):
    tiers = server.json("GET", "/cache")["tiers"]
    host = tiers["host"]
    lanes = [lane["resident_tokens"] for lane in tiers["device"]["lanes"]]
    return {"host": {"bytes": host["physical_bytes"], "source": "measured", "by_component": host["bytes_by_component"]},
            "lanes": _lanes(lanes, state)}


def _theirs(server, state):
    slots = [slot.get("n_prompt_tokens", 0) for slot in server.json("GET", "/slots")]
    return {**in_log(server.log()), "lanes": _lanes(slots, state, "--swa-full" in server.command)}


def in_log(log):
    """The prompt cache's last state; and the checkpoints that belong to what the slots hold now, reckoned from the last
    one that each slot took: how many there were, and how large it was."""
    states = _STATE.findall(log)
    prompts, mib = states[-1] if states else (0, 0)
    last = {slot: int(count) * float(size) for slot, count, size in _CHECKPOINT.findall(log)}
    return {"host": {"bytes": round(float(mib) * 2**20), "source": "measured", "prompts": int(prompts)},
            "checkpoints": {"bytes": round(sum(last.values()) * 2**20), "source": "derived"}}


def _lanes(tokens, state, whole_window=False):
    return {"bytes": sum(state.of(n, whole_window) for n in tokens), "source": "derived", "tokens": sum(tokens)}
