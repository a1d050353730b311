"""An exact repeat of a 128-token prompt with one generated token: all of it is overhead."""
from duel import Duel
from stats import median
from text import Text, prompt_text_of

NAME, GROUP, TITLE = "repeat_latency", "speed", "exact repeat, 128-token prompt, 1 token"
TARGET = 5.0            # times faster than llama-server's warm slot
SERVER_MS_TARGET = 1.0  # inside our server: the request's time less that of an empty request (GET /health)
NOISE_LIMIT = 0.15
REPEATS = 15


def run(bench, result):
    ours, baseline = bench.ours, bench.baseline
    with Duel(baseline, ours, bench.settings_for(lanes=1)) as duel:
        result["commands"] = {role: server.command for role, server in duel.servers.items()}
        any_server = duel.servers["a"]
        prompt = prompt_text_of(any_server, 128, bench.seed, NAME)
        system = Text(bench.seed, NAME, "chat").document(60)
        requests = {
            "completion": ("/v1/completions", {"prompt": prompt}),
            "chat": ("/v1/chat/completions", {"messages": [{"role": "system", "content": system},
                                                           {"role": "user", "content": "Say it again."}]}),
        }
        result["rows"] = {}
        for name, (path, body) in requests.items():
            inside = []

            def sample(server, _key):
                replies = [server.ask(path, {**body, "max_tokens": 1}) for _ in range(REPEATS)]
                total = median([reply.total_ms for reply in replies[1:]])
                if server is duel.servers["b"]:
                    inside.append(total - median([server.round_trip_ms() for _ in range(REPEATS)]))
                return total

            timed = duel.time(sample, bench.rounds, NOISE_LIMIT, bench.progress)
            row = result["rows"][name] = {"title": f"{TITLE} ({name})", "unit": "ms", "target": TARGET, **timed}
            row["server_ms"] = median(inside)
            row["server_ms_target"] = SERVER_MS_TARGET
            bench.save()
