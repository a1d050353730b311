"""skippy certify as a command: exit codes, messages for bad input, the files it writes. Usage: command_test.py SKIPPY FIXTURES."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SKIPPY, FIXTURES = sys.argv[1], sys.argv[2]
SMALL = ["-c", "1024", "-ub", "64", "-t", "1", "-np", "2"]


def fixture(family):
    return os.path.join(FIXTURES, f"{family}-tiny.gguf")


class CertifyCommand(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_it(self, *arguments):
        environment = dict(os.environ, XDG_CACHE_HOME=self.folder.name)
        done = subprocess.run([SKIPPY, "certify", *arguments], capture_output=True, text=True, env=environment,
                              stdin=subprocess.DEVNULL, timeout=280)
        for word in ("terminate called", "GGML_ASSERT", "Segmentation"):
            self.assertNotIn(word, done.stderr)
        return done

    def refused(self, *arguments, says):
        done = self.run_it(*arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def changed(self, name, change):
        with open(fixture("llama"), "rb") as file:
            content = change(file.read())
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def test_a_certificate_is_written_and_said(self):
        done = self.run_it("--model", fixture("llama"), *SMALL, "--quick", "--json", self.path("c.json"),
                           "--markdown", self.path("c.md"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"exactness bit +bit")
        with open(self.path("c.json"), encoding="utf-8") as file:
            certificate = json.load(file)
        self.assertEqual(certificate["schema"], "skippy-certificate")
        self.assertEqual(certificate["version"], 1)
        self.assertEqual(certificate["mode"], "quick")
        self.assertEqual(certificate["verdicts"]["bit"], "bit")
        kept = os.path.join(self.folder.name, "skippy", "certificates", certificate["identity"]["digest"] + ".json")
        with open(kept, encoding="utf-8") as file:
            self.assertEqual(json.load(file), certificate)
        with open(self.path("c.md"), encoding="utf-8") as file:
            self.assertIn("| self-test | host pages | append | bit | bit |", file.read())

    def test_json_to_standard_output_is_nothing_but_json(self):
        done = self.run_it("-m", fixture("deepseek3"), *SMALL, "--quick", "--exactness", "bit", "--json", "-",
                           "--out", self.path("kept"))
        self.assertEqual(done.returncode, 0, done.stderr)
        certificate = json.loads(done.stdout)
        self.assertIsNone(certificate["verdicts"]["token"])
        self.assertEqual(os.listdir(self.path("kept")), [certificate["identity"]["digest"] + ".json"])

    def test_other_settings_are_another_identity(self):
        for lanes in ("1", "2"):
            done = self.run_it("-m", fixture("llama"), "-c", "1024", "-ub", "64", "-t", "1", "-np", lanes, "--quick",
                               "--out", self.path("kept"))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(os.listdir(self.path("kept"))), 2)

    def test_bad_usage(self):
        self.refused(says="--model is required")
        self.refused("--model", fixture("llama"), "--exactnes", "bit", says="did you mean --exactness")
        self.refused("--model", fixture("llama"), "--lanes", "x", says="x")

    def test_bad_files(self):
        self.refused("--model", self.path("nowhere.gguf"), says="nowhere.gguf")
        self.refused("--model", self.changed("text.gguf", lambda content: b"this is no model" * 20), says="text.gguf")
        self.refused("--model", self.changed("cut.gguf", lambda content: content[:len(content) // 2]), says="cut.gguf")
        # The model of the tokenizer, "gpt2", becomes "none".
        def no_tokenizer(content):
            key = b"tokenizer.ggml.model"
            at = content.index(key) + len(key) + 4 + 8
            self.assertEqual(content[at:at + 4], b"gpt2")
            return content[:at] + b"none" + content[at + 4:]
        self.refused("--model", self.changed("mute.gguf", no_tokenizer), says="tokenizer")

    def test_a_context_too_small_says_what_is_needed(self):
        said = self.refused("--model", fixture("llama"), "-c", "256", "-ub", "128", "-t", "1", says="needs")
        self.assertRegex(said, r"needs \d+ positions a lane")
        self.refused("--model", fixture("llama"), "-c", "256", "-ub", "256", "-t", "1", "--quick",
                     says="the self-test needs")

    def test_a_type_that_the_model_cannot_have(self):
        self.refused("--model", fixture("qwen3next"), *SMALL, "-ctk", "q8_0", "-ctv", "q8_0", says="head sizes")

    def test_a_file_that_cannot_be_written(self):
        done = self.run_it("-m", fixture("llama"), *SMALL, "--quick", "--json",
                                        self.path("no/such/folder/c.json"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot write", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
