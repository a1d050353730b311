"""Reading back what was stored."""
import json
import os
import tempfile
import unittest

import stored
from prefix_results import whole


class StoredTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def put(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))

    def load(self):
        return stored.load(self.folder, os.path.join(self.folder, "evidence"))

    def test_missing_folders_are_empty(self):
        found = stored.load(os.path.join(self.folder, "none"), os.path.join(self.folder, "none"))
        self.assertEqual(found, stored.Stored())

    def test_each_kind_is_found_in_its_place(self):
        self.put("a.json", whole())
        self.put("families/b.json", whole())
        self.put("replay/c.json", {"format": 1, "replay": {"schema": "skippy-replay"}})
        self.put("families/causes.toml", '[[cause]]\nfamily = "mamba"\ntext = "because"\n')
        self.put("misses.toml", '[[cause]]\nmodel = "m.gguf"\ntext = "therefore"\n')
        twice = {"family": "f", "title": "F", "policy": "off", "problem": "p", "kind": "none"}
        self.put("evidence/families.json", {"rows": [twice, twice]})
        found = self.load()
        self.assertEqual((len(found.runs), len(found.families), len(found.replays)), (1, 1, 1))
        self.assertEqual(found.titles, [{"family": "f", "title": "F", "policy": "off", "problem": "p"}])
        self.assertEqual(found.causes, [{"family": "mamba", "text": "because"}])
        self.assertEqual(found.misses, [{"model": "m.gguf", "text": "therefore"}])

    def test_a_bad_file_is_named(self):
        for name, content in (("a.json", "{"), ("a.json", "[]"), ("a.json", {"format": 2}), ("a.json", {"format": 1}),
                              ("families/b.json", "null"), ("replay/c.json", {"format": 1}),
                              ("replay/c.json", {"rows": []}),
                              ("families/causes.toml", "text ="), ("families/causes.toml", "[[cause]]\nfamily = 'f'\n"),
                              ("families/causes.toml", "[[cause]]\ntext = 't'\nfamly = 'f'\n"),
                              ("misses.toml", "[[cause]]\ntext = 't'\nfamily = 'f'\n")):
            self.put(name, content)
            with self.assertRaisesRegex(stored.BadResult, name):
                self.load()
            os.remove(os.path.join(self.folder, name))


if __name__ == "__main__":
    unittest.main()
