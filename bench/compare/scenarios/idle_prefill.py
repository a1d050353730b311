"""What `--idle-prefill` is worth in chat with several turns: the same conversation with a server that evaluates ahead
and one that does not, turn by turn, the client's next turn coming when both servers are idle again."""
import pathlib
import time

import stats
from contestants import Contestant
from machine import cpu_seconds
from servers import BenchError, Server
from text import Text

NAME, GROUP, TITLE = "idle_prefill", "cost", "--idle-prefill"
TURNS, ANSWER, DOCUMENT = 5, 128, 300      # turns; most tokens of an answer; words of the system prompt
RETOLD = pathlib.Path(__file__).parents[3] / "tests/e2e/data/retold.jinja"
CASES = {
    "bit": ("--exactness", "bit"),
    "token": ("--exactness", "token"),
    "token, answers retold": ("--exactness", "token", "--chat-template-file", str(RETOLD)),
}


def run(bench, result):
    result["rows"], result["commands"] = {}, {}
    for name, flags in CASES.items():
        plain = Contestant(name, "skippy", bench.ours.binary, (*bench.ours.extra, *flags))
        ahead = Contestant(f"{name}, ahead", "skippy", bench.ours.binary, (*plain.extra, "--idle-prefill"))
        conversations = []
        with Server(plain, bench.settings) as without, Server(ahead, bench.settings) as with_it:
            result["commands"].update({server.label: server.command for server in (without, with_it)})
            for number in range(bench.rounds):
                conversations.append(converse(Text(bench.seed, NAME, number), {"without": without, "with": with_it}))
                bench.progress(f"{name}, conversation {number + 1}/{bench.rounds}")
                result["rows"][name] = {"title": f"{TITLE}, {name}", "bound": "", **judged(conversations)}
                bench.save()


def converse(text, servers):
    """One conversation with both servers, each with its own answers. Returns its turns but the first."""
    system = {"role": "system", "content": text.document(DOCUMENT)}
    histories, turns = {who: [system] for who in servers}, []
    for number in range(TURNS):
        question, turn = {"role": "user", "content": text.question()}, {}
        for who in list(servers)[::1 if number % 2 else -1]:
            histories[who].append(question)
            said, turn[who] = ask(servers[who], histories[who])
            histories[who].append({"role": "assistant", "content": said})
        turns.append({**turn, "equal": histories["with"] == histories["without"]})
    return turns[1:]


def ask(server, history):
    """The answer's text, and what it took until the first token; then waits until the server is idle."""
    runs, text, first, timings = idle_runs(server), [], None, {}
    start = cpu_seconds(server.pid)
    body = {"messages": history, "max_tokens": ANSWER, "stream_options": {"include_usage": True}}
    for at_ms, event in server.events("/v1/chat/completions", body):
        for choice in event.get("choices") or []:
            piece = (choice.get("delta") or {}).get("content")
            if piece or choice.get("finish_reason"):
                first = first or (at_ms, cpu_seconds(server.pid) - start)
                text.append(piece or "")
        timings = event.get("timings") or timings
    end = cpu_seconds(server.pid)
    if "--idle-prefill" in server.command:
        wait_for_idle_run(server, runs)
    server.settle()
    return "".join(text), {"first_ms": first[0], "first_cpu_ms": 1000 * first[1], "evaluated": timings["prompt_n"],
                           "cpu_ms": 1000 * (end - start), "after_cpu_ms": 1000 * (cpu_seconds(server.pid) - end)}


def idle_runs(server):
    return server.metric("skippy_idle_prefills_total", default=0)


def wait_for_idle_run(server, runs):
    deadline = time.monotonic() + 60
    while idle_runs(server) == runs:
        if time.monotonic() > deadline:
            raise BenchError(f"{server.label} did not evaluate the next turn ahead")
        time.sleep(0.05)


def judged(conversations):
    """Ratios of sums over a conversation's turns: single turns differ by where the grid falls."""
    def ratio(field):
        return stats.spread([sum(turn["without"][field] for turn in turns) / sum(turn["with"][field] for turn in turns)
                             for turns in conversations])

    every = [turn for turns in conversations for turn in turns]
    medians = {who: {field: stats.median([turn[who][field] for turn in every]) for field in every[0][who]}
               for who in ("without", "with")}
    evaluated = {who: sum(turn[who]["evaluated"] for turn in every) for who in ("without", "with")}
    first, wall = ratio("first_cpu_ms"), ratio("first_ms")
    vain = stats.spread([turn["with"]["after_cpu_ms"] - turn["without"]["after_cpu_ms"] for turn in every])
    return {
        "value": f"first token {first.median:.2f} times earlier by CPU time ({first.sure_low:.2f} to "
                 f"{first.sure_high:.2f}); {evaluated['with']} evaluated against {evaluated['without']}; "
                 f"{vain.median:.0f} ms of CPU time a turn spent ahead; {sum(turn['equal'] for turn in every)} of "
                 f"{len(every)} answers equal",
        "earlier_cpu": first.as_dict(), "earlier": wall.as_dict(), "ahead_cpu_ms": vain.as_dict(),
        "evaluated": evaluated,
        "turns_that_evaluate_more": sum(turn["with"]["evaluated"] > turn["without"]["evaluated"] for turn in every),
        "medians": medians, "samples": conversations}
