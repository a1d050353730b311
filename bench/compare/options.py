"""The flags of run.py."""
import argparse
import os

import corpus
import prefix_axes
import scenarios

SHORT_CONTEXT, SHORT_SCALE = 4096, 0.25


def parse(arguments, description):
    """The flags, with `modules` (the chosen scenarios) and `text_scale`. Ends the program where they make no sense."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--skippy", default="build/skippy")
    parser.add_argument("--llama-server", default="build/llama-server")
    parser.add_argument("--scenario", action="append", help="a scenario or group; may be repeated; default: all")
    parser.add_argument("--use-case", action="append", choices=corpus.KINDS, metavar="KIND",
                        help="of the scenario use_cases only this kind; may be repeated: " + ", ".join(corpus.KINDS))
    parser.add_argument("--short", action="store_true", help="the smoke test: few minutes on two cores with a tiny model")
    parser.add_argument("--rounds", "--runs", type=int, default=12, help="A/B/B/A rounds of a timing (default 12)")
    parser.add_argument("--json", help="where to store the result")
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true",
                          help="keep what the --json file has; of the chosen scenarios run those that are not done with "
                               "the same model, binaries and settings")
    existing.add_argument("--add", action="store_true",
                          help="keep what the --json file has of scenarios that are not run now")
    existing.add_argument("--overwrite", action="store_true", help="begin the --json file anew")
    parser.add_argument("--context", type=int, help=f"positions a conversation (default 8192; --short: {SHORT_CONTEXT})")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--ubatch", type=int, default=256, help="tokens of one prefill pass, both servers")
    parser.add_argument("--type-k", default="f16")
    parser.add_argument("--type-v", default="f16")
    parser.add_argument("--cache-ram", type=int, default=8192, help="MiB, both servers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ours-only", action="store_true", help="count tokens of skippy alone (quick, while developing)")
    parser.add_argument("--verify", action="store_true",
                        help="token scenarios: compare every answer with one of skippy without a cache")
    parser.add_argument("--synthetic", action="store_true", help="mark the model as one with random weights")
    parser.add_argument("--allow-other-build", action="store_true",
                        help="compare although the two are not of the same llama.cpp commit; the result is marked")
    prefix_axes.add_flags(parser)
    parsed = parser.parse_args(arguments)
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    for flag in ("model", "skippy", "llama_server"):
        path = getattr(parsed, flag)
        if not os.path.isfile(path):
            parser.error(f"--{flag.replace('_', '-')}: no such file: {path}")
        if flag != "model" and not os.access(path, os.X_OK):
            parser.error(f"--{flag.replace('_', '-')}: not executable: {path}")
    try:
        parsed.modules = scenarios.select(parsed.scenario or (["tokens", "parity"] if parsed.short else ["all"]))
    except ValueError as error:
        parser.error(str(error))
    parsed.text_scale = SHORT_SCALE if parsed.short else 1.0
    parsed.context = parsed.context or (SHORT_CONTEXT if parsed.short else 8192)
    if parsed.short:
        parsed.rounds, parsed.verify = 1, True
    return parsed
