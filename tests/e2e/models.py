"""The models under test and what a good cache can do with each."""
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from process import REPOSITORY, binary

CHUNK = 64  # -ub of every server here: the prefill grid


@dataclass(frozen=True)
class Model:
    name: str
    file: str
    # State can be cut back to any position. Otherwise only to a recorded boundary, at most a chunk before it.
    any_position: bool
    # A schedule other than the cold one (decode rows reused, lanes decoding together) is exact but rounds
    # differently, so a token may flip whose cold runner-up is closer than this, in nats. The synthetic models
    # are made with clear leads; now and then two candidates are still as good as tied.
    margin: float
    synthetic: bool = True

    @property
    def path(self):
        if self.synthetic:
            folder = os.environ.get("SKIPPY_FIXTURES") or Path(binary()).parent / "fixtures"
            return str(Path(folder) / self.file)
        return _fetched(self.name)

    def reach(self, common):
        """The fewest tokens that must be reused when `common` leading tokens were seen before."""
        return common if self.any_position else max(0, common - CHUNK)


_paths = {}


def _fetched(name):
    if name not in _paths:
        out = subprocess.run([sys.executable, str(REPOSITORY / "tools/fetch_models.py"), name],
                             check=True, capture_output=True, text=True).stdout
        _paths[name] = out.splitlines()[-1]
    return _paths[name]


def _synthetic(name, any_position):
    return Model(f"{name}-tiny", f"{name}-tiny.gguf", any_position, margin=0.02)


SMOLLM2 = Model("smollm2", "", any_position=True, margin=0.5, synthetic=False)
# Prompts here have no BOS, without which Gemma is shaky: two cold runs with other chunk sizes (-ub 48, 64, 512)
# moved its logits by up to 1.1 nats, while --exactness bit did not move them at all.
GEMMA3 = Model("gemma3", "", any_position=True, margin=2.2, synthetic=False)
LLAMA_TINY = _synthetic("llama", any_position=True)
DEEPSEEK3 = _synthetic("deepseek3", any_position=True)       # MLA: one latent row a token
QWEN3NEXT = _synthetic("qwen3next", any_position=False)      # hybrid, gated delta net
FALCON_H1 = _synthetic("falcon-h1", any_position=False)      # hybrid, attention and SSM in each block
MAMBA2 = _synthetic("mamba2", any_position=False)            # recurrent only
GEMMA3_TINY = _synthetic("gemma3", any_position=True)        # sliding window of 64
GPT_OSS = _synthetic("gpt-oss", any_position=True)           # sliding window of 64, sinks

RECURRENT = [QWEN3NEXT, FALCON_H1, MAMBA2]
WINDOWED = [GEMMA3_TINY, GPT_OSS]
SYNTHETIC = [*RECURRENT, DEEPSEEK3, *WINDOWED]
ALL = [SMOLLM2, GEMMA3, *SYNTHETIC]
