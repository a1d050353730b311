"""What `--exactness bit` costs: sequences decode alone, and only whole chunks of prefill are reused. Told, not bounded."""
import stats
from ledger import Ledger, in_threads
from scenarios.alternate_2 import alternate
from servers import Contestant, Server
from text import Text, prompt_text_of

NAME, GROUP, TITLE = "bit_price", "cost", "--exactness bit against token"
TOKENS = 48


def run(bench, result):
    result["rows"] = {}
    bit = Contestant("skippy, bit", bench.ours.kind, bench.ours.binary, (*bench.ours.extra, "--exactness", "bit"))
    settings = bench.settings_for(lanes=4)
    with Server(bench.ours, settings) as token_server, Server(bit, settings) as bit_server:
        result["commands"] = {server.label: server.command for server in (token_server, bit_server)}
        for answers in (1, 4):
            prompts = [prompt_text_of(token_server, 32, bench.seed, NAME, i) for i in range(answers)]

            def milliseconds(server):
                def call(i):
                    reply = server.stream("/v1/completions",
                                          {"prompt": prompts[i], "max_tokens": TOKENS, "ignore_eos": True})
                    return (reply.last_ms - reply.first_ms) / (reply.generated - 1)
                times = in_threads(server, [lambda i=i: call(i) for i in range(answers)])
                server.settle()
                return sum(times) / answers

            for server in (token_server, bit_server):
                milliseconds(server)   # the prompts are cached from here on
            ratios = []
            for i in range(bench.rounds):
                legs = [milliseconds(server) for server in (bit_server, token_server, token_server, bit_server)]
                ratios.append(stats.round_ratio(*legs))
                bench.progress(f"{answers} at once, {i + 1}/{bench.rounds}")
            spread = stats.spread(ratios)
            result["rows"][f"decode_{answers}"] = {
                "title": f"{TITLE}: time a token, {answers} answer{'s at once' if answers > 1 else ''}",
                "value": f"{spread.median:.2f} times ({spread.sure_low:.2f} to {spread.sure_high:.2f})", "bound": "",
                "ratio": spread.as_dict(), "samples": ratios}
            bench.save()
    evaluated = []
    for contestant in (bench.ours, bit):
        with Server(contestant, bench.settings_for(lanes=1)) as server:
            ledger = Ledger(server)
            alternate(ledger, Text(bench.seed, NAME), conversations=2, turns=5)
            evaluated.append(server.evaluated_total())
    result["rows"]["evaluated"] = {
        "title": f"{TITLE}: prompt tokens evaluated, 2 conversations alternating",
        "value": f"{evaluated[1] / evaluated[0]:.2f} times ({evaluated[1]} against {evaluated[0]})", "bound": "",
        "evaluated": {"token": evaluated[0], "bit": evaluated[1]}}
