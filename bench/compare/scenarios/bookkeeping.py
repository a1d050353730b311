"""What looking up and recording take of a cold request's time to its first token, at 2,048 tokens."""
from servers import Server
from stats import spread
from text import prompt_of

NAME, GROUP, TITLE = "bookkeeping", "cost", "lookup and recording, share of a cold first token at 2,048 tokens"
TARGET = 0.01
LENGTH = 2048


def run(bench, result):
    shares, samples = [], []
    with Server(bench.ours, bench.settings_for(lanes=1)) as server:
        result["commands"] = {server.label: server.command}
        server.complete(prompt_of(server, LENGTH, bench.seed, NAME, "warm-up"))
        for i in range(max(5, bench.rounds)):
            reply = server.complete(prompt_of(server, LENGTH, bench.seed, NAME, i))
            told = {key: reply.skippy[key] for key in ("lookup_ms", "record_ms")}
            samples.append({**told, "total_ms": reply.total_ms, "evaluated": reply.evaluated})
            shares.append(sum(told.values()) / reply.total_ms)
            bench.progress(f"{i + 1}")
    share = spread(shares)
    result["rows"] = {"share": {
        "title": TITLE, "value": f"{100 * share.median:.2f} % ({100 * share.low:.2f} to {100 * share.high:.2f})",
        "bound": f"under {100 * TARGET:.0f} %", "share": share.as_dict(), "samples": samples,
        "gate": {"met": share.median < TARGET}}}
