"""Starting, asking and losing a server; the servers here are small scripts."""
import os
import sys
import tempfile
import unittest

from servers import SCRATCH, BenchError, Contestant, Server, Settings

SCRIPT = """#!{python}
import http.server, json, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, text, kind="application/json"):
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        self.answer("llamacpp:prompt_tokens_total 42\\n" if self.path == "/metrics" else "{{}}")
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body.get("prompt") == "die":
            print("out of luck", flush=True)
            os._exit(3)
        if body.get("stream"):
            return self.events(body["prompt"])
        self.answer(json.dumps({{
            "choices": [{{"text": "hi", "logprobs": {{"content": [{{"id": 5, "top_logprobs": [
                {{"logprob": -0.5}}, {{"logprob": -2.0}}]}}]}}}}],
            "usage": {{"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {{"cached_tokens": 6}}}},
            "timings": {{"prompt_n": 3}}}}))
    def events(self, prompt):
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        def send(event):
            self.wfile.write(b"data: " + event.encode() + b"\\n\\n")
            self.wfile.flush()
        for token in (5, 6):
            send(json.dumps({{"choices": [{{"text": "hi", "logprobs": {{"content": [{{"id": token, "top_logprobs": [
                {{"logprob": -0.5}}, {{"logprob": -2.0}}]}}]}}}}]}}))
        if prompt == "die in the middle":
            os._exit(4)
        if prompt == "break off":
            send(json.dumps({{"error": {{"message": "too hot"}}}}))
        send(json.dumps({{"choices": [], "usage": {{"prompt_tokens": 9, "completion_tokens": 2}}, "timings": {{"prompt_n": 9}}}}))
        send("[DONE]")
        self.close_connection = True
    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def script(folder, text):
    path = os.path.join(folder, "server")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


class ServersTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)

    def server(self, text):
        return Server(Contestant("x", "llama-server", script(self._folder.name, text)), Settings(model="m"))

    def test_both_kinds_get_the_same_context_for_each_conversation(self):
        settings = Settings(model="m", context=1000, lanes=4)
        ours = Contestant("s", "skippy", "skippy").command(settings, 1)
        theirs = Contestant("l", "llama-server", "llama-server").command(settings, 1)
        self.assertEqual(ours[ours.index("--ctx-size") + 1], "1000")
        self.assertEqual(theirs[theirs.index("-c") + 1], "4000")
        shared = ours[ours.index("-t"):]
        self.assertEqual(shared, theirs[theirs.index("-t"):])

    def test_a_missing_binary_is_named(self):
        with self.assertRaisesRegex(BenchError, "cannot run /nowhere/server"):
            with Server(Contestant("x", "skippy", "/nowhere/server"), Settings(model="m")):
                pass

    def test_a_server_that_ends_while_starting_shows_its_last_words(self):
        with self.assertRaisesRegex(BenchError, "code 7 while starting(.|\n)*bad model"):
            with self.server("#!/bin/sh\necho bad model\nexit 7\n"):
                pass

    def test_answers_are_read_and_a_server_that_dies_is_told(self):
        with self.server(SCRIPT.format(python=sys.executable)) as server:
            reply = server.complete("hello")
            self.assertEqual((reply.prompt_tokens, reply.cached, reply.evaluated), (9, 6, 3))
            self.assertEqual((reply.text, reply.tokens, reply.gaps), ("hi", [5], [1.5]))
            self.assertEqual(server.evaluated_total(), 42)
            with self.assertRaisesRegex(BenchError, "died with code 3(.|\n)*out of luck"):
                server.complete("die")

    def test_streams_tell_tokens_and_times_and_must_reach_their_end(self):
        with self.server(SCRIPT.format(python=sys.executable)) as server:
            reply = server.stream("/v1/completions", {"prompt": "hello"})
            self.assertEqual((reply.text, reply.tokens, reply.gaps), ("hihi", [5, 6], [1.5, 1.5]))
            self.assertEqual((reply.prompt_tokens, reply.evaluated, reply.generated), (9, 9, 2))
            self.assertTrue(0 < reply.first_ms <= reply.last_ms <= reply.total_ms)
            with self.assertRaisesRegex(BenchError, "too hot"):
                server.stream("/v1/completions", {"prompt": "break off"})
            with self.assertRaisesRegex(BenchError, "died with code 4"):
                server.stream("/v1/completions", {"prompt": "die in the middle"})

    def test_a_restart_is_another_process_with_the_same_command_and_folder(self):
        with Server(Contestant("x", "llama-server", script(self._folder.name, SCRIPT.format(python=sys.executable)),
                               ("--slot-save-path", SCRATCH)), Settings(model="m")) as server:
            before, folder = server.pid, server.command[-1]
            self.assertTrue(os.path.isdir(folder))
            server.restart()
            self.assertNotEqual(server.pid, before)
            self.assertEqual(server.command[-1], folder)
            self.assertEqual(server.told_command()[-1], SCRATCH)
            self.assertEqual(server.complete("hello").text, "hi")
            memory = server.memory()   # once: the process is still growing
            self.assertGreaterEqual(memory["peak"], memory["resident"])
        self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    unittest.main()
