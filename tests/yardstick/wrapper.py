#!/usr/bin/env python3
"""Stands in for llama-server's binary: same command line, the local model, ours or the reference server behind it.

YARDSTICK_SERVER: the binary; YARDSTICK_MODEL: the model; YARDSTICK_OURS: 1 if the binary is skippy.
"""
import os
import sys

WITH_VALUE = {"--hf-repo", "--hf-file", "--model-url"}  # the hub's model: the local one is served instead
ALONE = {"--offline"}


def command(arguments, server, model, ours):
    kept, context, lanes, unified = [], None, 1, False
    rest = iter(arguments)
    for argument in rest:
        if argument in WITH_VALUE:
            next(rest)
        elif argument in ALONE:
            pass
        elif argument == "--ctx-size":
            context = int(next(rest))
        elif argument == "--kv-unified" and ours:
            unified = True  # slots that may borrow from each other: here each lane gets the whole instead
        else:
            if argument == "--parallel":
                value = next(rest)
                lanes = int(value)
                kept += [argument, value]
            else:
                kept.append(argument)
    if context is not None:
        # llama-server's -c is shared by its slots, ours is a lane's.
        kept += ["--ctx-size", str(context if unified or not ours else max(1, context // lanes))]
    # A self-test of every new server would be most of the time spent.
    own = ["serve", "--no-self-test"] if ours else []
    return [server, *own, *kept, "--model", model, "--threads", "1"]


if __name__ == "__main__":
    words = command(sys.argv[1:], os.environ["YARDSTICK_SERVER"], os.environ["YARDSTICK_MODEL"],
                    os.environ["YARDSTICK_OURS"] == "1")
    os.execv(words[0], words)
