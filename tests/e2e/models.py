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
    # Real quantised weights: another (exact, but not bit-equal) schedule may flip a token whose cold runner-up
    # is closer than this, in nats. 0: the texts must be equal throughout.
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


SMOLLM2 = Model("smollm2", "", any_position=True, margin=0.5, synthetic=False)
GEMMA3 = Model("gemma3", "", any_position=True, margin=1.0, synthetic=False)
QWEN3NEXT = Model("qwen3next", "qwen3next-tiny.gguf", any_position=False, margin=0)
FALCON_H1 = Model("falcon-h1", "falcon-h1-tiny.gguf", any_position=False, margin=0)
DEEPSEEK3 = Model("deepseek3", "deepseek3-tiny.gguf", any_position=True, margin=0)
MAMBA2 = Model("mamba2", "mamba2-tiny.gguf", any_position=False, margin=0)

ALL = [SMOLLM2, GEMMA3, QWEN3NEXT, FALCON_H1, DEEPSEEK3, MAMBA2]
