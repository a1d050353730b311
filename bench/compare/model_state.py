"""What a model's state takes, by the family's formulas over the file's metadata (`skippy families`)."""
import json
import subprocess
from dataclasses import dataclass

from http_client import BenchError


@dataclass(frozen=True)
class StateBytes:
    token: int            # of every token: rows that are kept for good
    window_token: int     # more of each of the last `window` tokens
    window: int           # tokens
    snapshot: int         # of recurrent memory, whatever the length

    def of(self, tokens, whole_window=False):
        """Of one conversation. `whole_window`: window rows are kept of every token (llama-server --swa-full)."""
        if tokens == 0:
            return 0
        in_window = tokens if whole_window else min(tokens, self.window)
        return tokens * self.token + in_window * self.window_token + self.snapshot


def ask(skippy, model, type_k="f16", type_v="f16"):
    """(family, payload policy, StateBytes) of a model file. Reads the header only, unless the family is unknown."""
    told = _families(skippy, model, type_k, type_v, "--no-measure")
    sizes = told.get("expected")
    if not sizes:
        told = _families(skippy, model, type_k, type_v)
        sizes = told.get("measured")
    if not sizes:
        raise BenchError(f"{skippy} families does not tell what a token of {model} takes: {told.get('why', '')}")
    state = StateBytes(sizes["bytes_per_token"], sizes["window_bytes_per_token"], sizes["window_tokens"],
                       sizes["bytes_per_snapshot"])
    return (told.get("family") or {}).get("name", "unknown"), sizes["policy"], state


def _families(skippy, model, type_k, type_v, *more):
    command = [skippy, "families", "--model", model, "--cache-type-k", type_k, "--cache-type-v", type_v, "--json",
               *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"cannot run {skippy} families: {error}") from error
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise BenchError(f"{skippy} families: {(done.stderr or done.stdout).strip()[-2000:]}") from error
