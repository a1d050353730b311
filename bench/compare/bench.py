"""What a scenario may use: the contestants, the settings, the model."""
import sys

import cache_bytes
import corpus
import model_state
import prefix_axes
from contestants import Contestant, Settings
from labels import BEST, COLD, DEFAULT, OURS

# Families whose state can be cut back to any position; the others resume at recorded boundaries.
ANY_POSITION = {"llama", "qwen2", "qwen3", "qwen3moe", "deepseek2", "glm4", "glm4moe", "gemma", "olmo", "minimax-m2"}
SLIDING_WINDOW = {"gemma2", "gemma3", "gemma3n", "gemma4", "gpt-oss", "olmo2", "cohere2", "llama4", "exaone4"}


class Bench:
    """`model`: its description, which learns family, payload policy and what its state takes."""

    def __init__(self, arguments, model, save):
        self.rounds, self.seed, self.save = arguments.rounds, arguments.seed, save
        self.settings = Settings(model=arguments.model, context=arguments.context, threads=arguments.threads,
                                 ubatch=arguments.ubatch, type_k=arguments.type_k, type_v=arguments.type_v,
                                 cache_ram=arguments.cache_ram)
        self.verify, self.text_scale = arguments.verify, arguments.text_scale
        self.use_cases = arguments.use_case or list(corpus.KINDS)
        self.axes = prefix_axes.of(arguments)
        self.any_position = model["architecture"] in ANY_POSITION
        model["family"], model["policy"], self.state = model_state.ask(arguments.skippy, arguments.model,
                                                                       arguments.type_k, arguments.type_v)
        self.ours = Contestant(OURS, "skippy", arguments.skippy)
        self.ours_without_cache = Contestant(COLD, "skippy", arguments.skippy, ("--no-cache",))
        self.baseline = Contestant(DEFAULT, "llama-server", arguments.llama_server)
        self.best = Contestant(BEST, "llama-server", arguments.llama_server,
                               best_flags(model["architecture"]))
        self.contestants = [self.ours] if arguments.ours_only else [self.ours, self.baseline, self.best]
        self._name = ""

    def settings_for(self, **changes):
        return Settings(**{**vars(self.settings), **changes})

    def contestants_of(self, scenario):
        """For a token scenario: llama-server tells what its cache holds, and its best settings are the scenario's."""
        more = {self.baseline: (), self.best: getattr(scenario, "BEST", ())}
        return [contestant.with_flags(*cache_bytes.VERBOSITY, *more[contestant]) if contestant in more else contestant
                for contestant in self.contestants]

    @staticmethod
    def without_cache(contestant):
        return contestant.with_flags("--cache-ram", "0")

    def start(self, name):
        self._name = name

    def progress(self, note):
        if sys.stderr.isatty():
            print(f"\r\033[K{self._name}: {note}", end="", file=sys.stderr, flush=True)


def best_flags(architecture):
    """llama-server's best exact settings wherever they do not depend on the scenario; a scenario's BEST comes on top.

    Left out: --cache-reuse shifts rows that were computed behind another prefix, so its answers are not a cold run's.
    --kv-unified and smaller batches (-b) were tried on a hybrid model in most token scenarios: nothing, or under 2 %.
    """
    best = ["--ctx-checkpoints", "128", "--checkpoint-min-step", "16"]
    return tuple(best + ["--swa-full"] * (architecture in SLIDING_WINDOW))
