"""The README's measured block."""
import unittest

import render_results


class RenderTest(unittest.TestCase):
    def test_only_the_block_between_the_markers_changes(self):
        readme = "before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n"
        self.assertEqual(render_results.render(readme, []),
                         "before\n<!-- bench:begin -->\nNot measured yet.\n<!-- bench:end -->\nafter\n")

    def test_a_readme_without_markers_is_an_error(self):
        with self.assertRaises(ValueError):
            render_results.render("no markers", [])


if __name__ == "__main__":
    unittest.main()
