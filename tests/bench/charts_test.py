"""What the charts show, without drawing them."""
import unittest

from charts import data
from prefix_results import row, run, timed, whole
from stored import Stored


def a_replay(title="attention memory"):
    rows = [{"policy": policy, "cap_tokens": cap, "cached_tokens": cached, "prompt_tokens": 1000,
             "optimum": {"cached_tokens": 600}}
            for policy in ("lru", "benefit") for cap, cached in ((200, 500), (100, 250))]
    return {"title": title, "command": "tools/bench_replay.py", "commit": "abcdef0123456", "replay": {"rows": rows}}


def a_token_run(file):
    told = run([], file=file)
    rounds = {"skippy": [{"ideal": 10, "evaluated": 11}],
              "llama-server, best settings": [{"ideal": 10, "evaluated": 30}]}
    told["scenarios"] = {"fan": {"group": "tokens", "title": "fan-out", "status": "done",
                                 "contestants": {label: {"rounds": of} for label, of in rounds.items()}},
                         "died": {"group": "tokens", "title": "died", "status": "failed"}}
    return told


class ChartsTest(unittest.TestCase):
    def test_first_token_of_real_models_cold_and_repeated(self):
        [panel] = data.ttft([whole(), whole(synthetic=True, file="tiny.gguf")])["panels"]
        self.assertEqual(panel["title"], "real.gguf")
        self.assertEqual(panel["series"]["llama-server, warm"], [[128, 10.0, 10.0, 10.0], [4096, 10.0, 10.0, 10.0]])
        self.assertEqual(panel["series"]["skippy, cold"], [[128, 100.0, 100.0, 100.0], [4096, 100.0, 100.0, 100.0]])

    def test_the_run_with_more_lengths_is_shown(self):
        [panel] = data.ttft([whole(lengths=(1, 2, 3)), whole()])["panels"]
        self.assertEqual([point[0] for point in panel["series"]["skippy, warm"]], [1, 2, 3])

    def test_one_length_is_no_curve(self):
        self.assertEqual(data.ttft([run([row(128, 1, "repeat", {"llama-server": timed(2, 1)})])])["panels"], [])

    def test_tokens_of_the_models_chosen_and_only_scenarios_that_were_measured(self):
        chart = data.tokens([a_token_run("gemma-3-270m-q4_k_m.gguf"), a_token_run("another.gguf")])
        self.assertEqual([(panel["title"], panel["scenarios"]) for panel in chart["panels"]],
                         [("gemma-3-270m-q4_k_m.gguf", ["fan-out"])])
        self.assertEqual(chart["panels"][0]["series"],
                         {"ideal": [10], "skippy": [11], "llama-server, best settings": [30]})

    def test_hit_rates_with_the_optimum_by_rising_room(self):
        [panel] = data.hit_rate([a_replay()])["panels"]
        curve = [[100, 0.25], [200, 0.5]]
        self.assertEqual(panel["series"],
                         {"LRU": curve, "benefit per byte": curve, "optimum": [[100, 0.6], [200, 0.6]]})

    def test_what_has_nothing_to_show_is_left_out(self):
        self.assertEqual(data.all_charts(Stored()), [])
        self.assertEqual([chart["name"] for chart in data.all_charts(Stored(replays=[a_replay()]))], ["hit_rate"])

    def test_the_digest_follows_the_figures(self):
        one, other = data.hit_rate([a_replay()]), data.hit_rate([a_replay("hybrid memory")])
        self.assertEqual(data.digest(one), data.digest(data.hit_rate([a_replay()])))
        self.assertNotEqual(data.digest(one), data.digest(other))
        self.assertEqual(data.digest_in("<svg>\n<!-- digest 0a1b -->\n</svg>\n"), "0a1b")
        self.assertIsNone(data.digest_in("<svg></svg>"))


if __name__ == "__main__":
    unittest.main()
