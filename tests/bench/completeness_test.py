"""What the short form complains of."""
import copy
import unittest

from completeness import COLD, LABELS, complaints


def a_round():
    percentiles = {"p50": 1.0, "p95": 2.0, "p99": 2.0}
    return {"requests": 2, "prompt_tokens": 20, "ideal": 10, "evaluated": 10, "ratio": 1.0, "decode_per_s": 50.0, "seconds": 1.0,
            "cached_by_tier": {"host": 0}, "first_ms": percentiles, "total_ms": percentiles,
            "cache_bytes": {"host": {"bytes": 0, "source": "measured"}, "lanes": {"bytes": 5, "source": "derived"}},
            "memory": {"resident": 1, "peak": 2}}


def good():
    equal = {"compared": 2, "equal": 2, "partings": []}
    tokens = {"group": "tokens", "status": "done", "gate": {"met": True, "why_not": []},
              "contestants": {label: {"command": ["x"], "rounds": [a_round()]} for label in LABELS},
              "answers": {label: equal for label in (*LABELS[1:], COLD)}}
    use = {"group": "use", "status": "done", "rows": {"rag": copy.deepcopy(tokens)}}
    parity = {"group": "parity", "status": "done", "rows": [{}], "gate": {"met": True, "why_not": []}}
    return copy.deepcopy({
        "model": {"file": "m", "sha256": "0", "architecture": "a", "family": "f", "policy": "p"}, "machine": {"cpu": "c"},
        "skippy": {"version": "v"}, "llama_server": {"version": "v"}, "scenarios": {"s": tokens, "u": use, "parity": parity}})


class CompletenessTest(unittest.TestCase):
    def test_nothing_missing_nothing_wrong(self):
        self.assertEqual(complaints(good()), [])

    def test_every_cell_that_is_taken_away_is_named(self):
        def leaves(value, path=()):
            if isinstance(value, dict) and value:
                for key, item in value.items():
                    yield from leaves(item, (*path, key))
            else:
                yield path

        for path in leaves(a_round()):
            run = good()
            holder = run["scenarios"]["s"]["contestants"]["llama-server"]["rounds"][0]
            for key in path[:-1]:
                holder = holder[key]
            del holder[path[-1]]
            told = path[:1] if path[0] == "cached_by_tier" else path
            self.assertIn(f"no cell s.llama-server.rounds[0].{'.'.join(told)}", complaints(run))

    def test_missing_contestants_rounds_answers_and_gates_are_named(self):
        run = good()
        scenario = run["scenarios"]["s"]
        del scenario["contestants"]["llama-server"], scenario["answers"][COLD], scenario["gate"]
        scenario["contestants"]["skippy"]["rounds"] = []
        self.assertEqual(complaints(run)[:4], [
            "no cell s.skippy.rounds", "no cell s.llama-server.command", "no cell s.llama-server.rounds",
            f"no cell s.answers.{COLD}"])
        self.assertIn("no cell s.gate", complaints(run))

    def test_use_cases_have_the_cells_of_token_scenarios(self):
        run = good()
        rows = run["scenarios"]["u"]["rows"]
        del rows["rag"]["contestants"]["skippy"]["rounds"][0]["memory"]["peak"]
        rows["rag"]["answers"][COLD]["partings"] = [{"position": 3, "gap": 0.9}]
        self.assertEqual(complaints(run), ["no cell u.rag.skippy.rounds[0].memory.peak",
                                           "u.rag: an answer parts from the cold one at token 3, gap 0.9"])
        run["scenarios"]["u"]["rows"] = {}
        self.assertEqual(complaints(run), ["no cell u.rows"])

    def test_what_describes_the_row_is_part_of_it(self):
        run = good()
        run["model"]["policy"], run["llama_server"]["version"] = "", None
        self.assertEqual(complaints(run), ["no cell model.policy", "no cell llama_server.version"])

    def test_an_answer_that_parts_is_wrong_unless_the_tie_was_near(self):
        for gap, wrong in ((0.1, False), (0.9, True), (None, True)):
            run = good()
            run["scenarios"]["s"]["answers"][COLD]["partings"] = [{"position": 3, "gap": gap}]
            self.assertEqual(any("token 3" in line for line in complaints(run)), wrong)

    def test_a_failed_scenario_and_a_failed_parity_are_told(self):
        run = good()
        run["scenarios"]["s"].update(status="failed", error="died")
        run["scenarios"]["parity"]["gate"]["why_not"] = ["parts at 7"]
        self.assertEqual(complaints(run), ["s: failed: died", "parity: parts at 7"])


if __name__ == "__main__":
    unittest.main()
