"""The axes of the scenario prefix_reuse, as flags of run.py."""
from argparse import ArgumentTypeError
from dataclasses import dataclass


@dataclass(frozen=True)
class Axes:
    lengths: tuple       # tokens of the prefix
    generate: tuple      # generated tokens, ascending
    concurrency: tuple   # clients at once


def add_flags(parser):
    parser.add_argument("--lengths", type=numbers, default=(128, 1024, 4096), metavar="N,N,...",
                        help="prefix_reuse: prompt tokens (default 128,1024,4096)")
    parser.add_argument("--generate", type=numbers, default=(1, 16), metavar="G,G,...",
                        help="prefix_reuse: generated tokens (default 1,16)")
    parser.add_argument("--concurrency", type=numbers, default=(1,), metavar="C,C,...",
                        help="prefix_reuse: clients at once, each with a lane (default 1)")


def of(arguments):
    return Axes(arguments.lengths, arguments.generate, arguments.concurrency)


def numbers(text):
    """Ascending, each once."""
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError as error:
        raise ArgumentTypeError(f"'{text}' is not a list of numbers like 128,4096") from error
    if found[0] < 1:
        raise ArgumentTypeError(f"'{text}': each must be at least 1")
    return tuple(found)
