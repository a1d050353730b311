"""The ideal that evaluated tokens are held against."""
import random
import unittest

from prefix_tree import PrefixTree


def ideal(tree, prompt):
    expected = tree.expect(prompt)
    tree.add_prompt(prompt)
    return expected


class PrefixTreeTest(unittest.TestCase):
    def test_a_first_prompt_is_evaluated_whole(self):
        expected = PrefixTree().expect([1, 2, 3])
        self.assertEqual((expected.known, expected.evaluated, expected.branch), (0, 3, False))

    def test_an_exact_repeat_costs_nothing(self):
        tree = PrefixTree()
        tree.add_prompt([1, 2, 3])
        self.assertEqual(tree.expect([1, 2, 3]).evaluated, 0)

    def test_a_prefix_of_a_prompt_costs_one_token_for_its_logits(self):
        tree = PrefixTree()
        tree.add_prompt([1, 2, 3])
        expected = tree.expect([1, 2])
        self.assertEqual((expected.known, expected.evaluated, expected.branch), (2, 1, True))

    def test_an_append_costs_what_is_new_and_is_no_branch(self):
        tree = PrefixTree()
        tree.add_prompt([1, 2, 3])
        expected = tree.expect([1, 2, 3, 4, 5])
        self.assertEqual((expected.known, expected.evaluated, expected.branch), (3, 2, False))

    def test_a_prompt_that_parts_inside_another_is_a_branch(self):
        tree = PrefixTree()
        tree.add_prompt([1, 2, 3])
        expected = tree.expect([1, 2, 9, 9])
        self.assertEqual((expected.known, expected.evaluated, expected.branch), (2, 2, True))

    def test_nothing_in_common_is_no_branch(self):
        tree = PrefixTree()
        tree.add_prompt([1, 2, 3])
        self.assertFalse(tree.expect([7, 8]).branch)

    def test_the_last_generated_token_was_never_evaluated(self):
        tree = PrefixTree()
        tree.add_prompt([1, 2])
        tree.add_generated([1, 2], [3, 4])
        self.assertEqual(tree.expect([1, 2, 3, 4, 5]).known, 3)

    def test_the_end_of_an_answer_is_not_the_end_of_a_prompt(self):
        tree = PrefixTree()
        tree.add_prompt([1])
        tree.add_generated([1], [2, 3, 4])
        self.assertEqual(tree.expect([1, 2, 3]).evaluated, 1)

    def test_random_prompts_cost_the_longest_common_prefix_with_any_earlier_one(self):
        source = random.Random(1)
        tree, earlier = PrefixTree(), []
        for _ in range(300):
            prompt = [source.randrange(3) for _ in range(source.randrange(1, 8))]
            common = max((next((i for i, (x, y) in enumerate(zip(prompt, other)) if x != y), min(len(prompt), len(other)))
                          for other in earlier), default=0)
            expected = ideal(tree, prompt)
            self.assertEqual(expected.known, common)
            self.assertEqual(expected.evaluated, 0 if prompt in earlier else max(1, len(prompt) - common))
            earlier.append(prompt)


if __name__ == "__main__":
    unittest.main()
