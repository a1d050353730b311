"""Stored results: written, read, carried on."""
import json
import os
import tempfile
import unittest

from result_file import CannotGoOn, as_text, carry_on, conditions_of, load, store


def results(**scenarios):
    return {"format": 1, "complete": False, "model": {"sha256": "m", "synthetic": False}, "binaries": {"skippy": "b"},
            "settings": {"context": 1}, "skippy": {"commit": "c"}, "scenarios": scenarios}


class ResultFileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "new", "r.json")

    def carry(self, now, chosen, **how):
        return carry_on(self.path, now, chosen, **{"add": False, "resume": False, "overwrite": False, **how})

    def test_text_is_json_with_short_flat_things_on_one_line(self):
        value = {"a": [{"x": 1, "y": [1, 2]}, {"z": None}], "b": list(range(99)), "c": {}, 3: (1.5, "q\"")}
        text = as_text(value)
        self.assertEqual(json.loads(text), json.loads(json.dumps(value)))
        self.assertIn('\n  {"z": null}\n', text)
        self.assertGreater(text.count("\n"), 99)

    def test_a_home_folder_is_not_stored(self):
        store(self.path, results(s={"command": [os.path.expanduser("~/m.gguf")]}))
        self.assertEqual(load(self.path)["scenarios"]["s"]["command"], ["~/m.gguf"])

    def test_an_existing_file_is_not_touched_unless_somebody_says_how(self):
        store(self.path, results())
        with self.assertRaisesRegex(CannotGoOn, "interrupted.*--resume.*--add.*--overwrite"):
            self.carry(results(), ["s"])
        now = results()
        self.assertEqual(self.carry(now, ["s"], overwrite=True), [])
        self.assertEqual(now["scenarios"], {})

    def test_resume_skips_what_was_done_under_the_same_conditions_and_keeps_the_rest_until_it_is_run(self):
        same = conditions_of(results())
        before = {"done": {"status": "done", "conditions": same}, "half": {"status": "partial", "conditions": same},
                  "other": {"status": "done", "conditions": "else"}, "unasked": {"status": "done", "conditions": "else"}}
        store(self.path, results(**before))
        now = results()
        self.assertEqual(self.carry(now, ["done", "half", "other", "new"], resume=True), ["done"])
        self.assertEqual(set(now["scenarios"]), set(before))
        self.assertEqual(now["scenarios"]["done"]["commit"], "c")
        self.assertEqual(self.carry(results(), ["done"], add=True), [])

    def test_conditions_are_model_binaries_and_settings(self):
        for change in ({"settings": {"context": 2}}, {"binaries": {"skippy": "x"}}, {"model": {"sha256": "x"}}):
            self.assertNotEqual(conditions_of(results()), conditions_of({**results(), **change}))
        self.assertEqual(conditions_of(results()), conditions_of({**results(), "started": "later"}))

    def test_another_models_file_and_a_file_that_is_no_result_are_refused(self):
        store(self.path, {**results(), "model": {"sha256": "other", "synthetic": False}})
        with self.assertRaisesRegex(CannotGoOn, "of another model"):
            self.carry(results(), ["s"], resume=True)
        for text in ("{", "[]", '{"format": 7}'):
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaises(CannotGoOn):
                self.carry(results(), ["s"], resume=True)

    def test_without_a_file_there_is_nothing_to_carry_on(self):
        self.assertEqual(self.carry(results(), ["s"], resume=True), [])
        self.assertEqual(carry_on(None, results(), ["s"], False, True, False), [])


if __name__ == "__main__":
    unittest.main()
