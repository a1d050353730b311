"""The README's measured block."""
import unittest

import render_results
import report
from prefix_results import whole
from report.readme import readme
from stored import BadResult, Stored


class RenderTest(unittest.TestCase):
    def test_only_the_block_between_the_markers_changes(self):
        readme = "before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n"
        self.assertEqual(render_results.between_markers(readme, "new"),
                         "before\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\nafter\n")

    def test_nothing_measured_is_said(self):
        self.assertEqual(readme(Stored(), []), "Not measured yet.")

    def test_families_come_before_charts_and_each_chart_has_command_and_caption(self):
        text = readme(Stored(families=[whole()]), [("docs/charts/x.svg", "A chart", "make x", "a commit, a machine")])
        chart = "![A chart](docs/charts/x.svg)\n\n`make x`; a commit, a machine."
        self.assertLess(text.index("exact repeat"), text.index(chart))

    def test_the_headline_has_a_column_a_model_real_ones_first(self):
        def run(file, synthetic, ratio):
            rounds = [{"ratio": ratio}]
            return {"skippy": {"commit": "0123456789ab"}, "llama_server": {"version": "b1"}, "started": "2026-01-02T00",
                    "machine": {"cpu": "a CPU", "cores": 2}, "model": {"file": file, "synthetic": synthetic}, "scenarios": {"fan": {
                "group": "tokens", "title": "fan-out", "status": "done",
                "contestants": {"skippy": {"rounds": [{"ratio": 1.0}]}, "llama-server, best settings": {"rounds": rounds}}}}}
        text = report.headline([run("a-tiny.gguf", True, 3.4), run("real.gguf", False, 2.0)])
        self.assertIn("|  | real | a-tiny \\* |", text)
        self.assertIn("| fan-out | 1.00 / 2.00 | 1.00 / 3.40 |", text)
        self.assertIn("random weights", text)
        self.assertIn("a CPU, 2 cores; skippy 0123456789; llama-server b1.", text)

    def test_a_readme_without_markers_is_an_error(self):
        with self.assertRaises(BadResult):
            render_results.between_markers("no markers", "new")


if __name__ == "__main__":
    unittest.main()
