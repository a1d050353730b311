"""The use-case corpus of skippy bench: its shape, what its requests share, clear errors, and playing it."""
import importlib
import json
import os
import subprocess
import sys

import pytest

import models
from process import binary

COMPARE = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "compare")
sys.path.append(COMPARE)
corpus = importlib.import_module("corpus")

# Characters that all twelve requests of a kind begin with: a schema, tools, sources, examples, or an instruction.
SHARED_BY_ALL = {"tool_calling": 3500, "text_to_sql": 2500, "coding_agent": 1200, "issue_fixing": 3000,
                 "code_refinement": 400, "few_shot_classification": 2000, "open_chat": 80, "summarisation_rag": 250}
CONVERSATIONS = {"coding_agent": 1, "code_refinement": 1, "open_chat": 3}


@pytest.fixture(scope="module")
def cases():
    return {kind: corpus.load(kind) for kind in corpus.KINDS}


def text_of(messages):
    return "".join(f"<{message['role']}>{message['content']}" for message in messages)


def test_eight_kinds_of_twelve_requests_no_two_alike(cases):
    assert len(cases) == 8
    assert all(len(case.requests) == 12 for case in cases.values())
    texts = [text_of(messages) for case in cases.values() for messages in case.requests]
    assert len(set(texts)) == 96


def test_requests_end_with_the_user_and_take_turns(cases):
    for case in cases.values():
        for messages in case.requests:
            roles = [message["role"] for message in messages]
            assert roles == ["system"] + ["user", "assistant"] * (len(roles) // 2 - 1) + ["user"], case.name


def test_a_kind_s_requests_share_what_its_users_requests_share(cases):
    assert set(SHARED_BY_ALL) == set(cases)
    for kind, least in SHARED_BY_ALL.items():
        shared = os.path.commonprefix([text_of(messages) for messages in cases[kind].requests])
        assert len(shared) >= least, kind


def test_conversations_go_on_where_they_ended(cases):
    for kind, count in CONVERSATIONS.items():
        requests = cases[kind].requests
        for before, after in zip(requests, requests[count:]):
            assert after[:len(before)] == before and len(after) == len(before) + 2, kind


def test_tool_results_follow_calls_and_documents_come_in_varying_order(cases):
    results = [messages for messages in cases["tool_calling"].requests
               if messages[-1]["content"].startswith("<tool_response>")]
    assert len(results) >= 3
    assert all("<tool_call>" in messages[-2]["content"] for messages in results)
    orders = {tuple(line for line in messages[-1]["content"].splitlines() if line.startswith("["))
              for messages in cases["summarisation_rag"].requests}
    assert len(orders) >= 10 and {len(order) for order in orders} == {2, 3}


@pytest.mark.parametrize("kind, old, new, says", [
    ("text_to_sql", 'title = "text-to-SQL"', 'title = ', "(at line 2, column 9)"),
    ("text_to_sql", '[[request]]\nuser = "How many p', '[[request]]\nusr = "How many p', "request 1: unknown 'usr'"),
    ("text_to_sql", 'user = "Which vessels in service have never had an incident?"', 'user = " "',
     "request 3: 'user' is not a text"),
    ("open_chat", 'conversation = "sourdough"\nuser = "My', 'user = "My',
     "request 1: an answer that no later request sees"),
    ("coding_agent",
     'answer = "I look at what is there."\ncall = {name = "list_files", arguments = {folder = "."}}', "",
     "request 2: conversation 'agent' has no answer to go on from"),
    ("open_chat", 'title = "open chat"', "", "'title' is missing"),
    ("few_shot_classification", "[[request]]", "[[examples]]", "unknown 'examples'"),
    ("summarisation_rag", '["rooms", "mobile"]', '["room", "mobile"]',
     "request 11: there is no document 'room'"),
    ("coding_agent", 'call = {name = "run_tests"', 'call = {name = "run_test"',
     "request 8: there is no tool 'run_test'"),
    ("coding_agent", 'arguments = {folder = "."}', 'arguments = {}',
     "request 1: the call of list_files lacks 'folder'"),
    ("tool_calling", 'call = {name = "find_contact"', 'answer = "No."\n#', "request 8: the result of a tool"),
    ("tool_calling", '"name": "read_file"', '"nome": "read_file"', "tools: not a list of functions"),
])
def test_a_broken_file_is_told_with_its_place(tmp_path, kind, old, new, says):
    name = kind + ".toml"
    with open(os.path.join(corpus.FOLDER, name), encoding="utf-8") as file:
        text = file.read()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(corpus.CorpusError) as error:
        corpus.load(kind, tmp_path)
    assert str(tmp_path / name) in str(error.value) and says in str(error.value)


def test_a_missing_file_and_a_missing_request_are_told(tmp_path):
    with pytest.raises(corpus.CorpusError, match="no_such_kind.toml: .*No such file"):
        corpus.load("no_such_kind", tmp_path)
    with open(os.path.join(corpus.FOLDER, "text_to_sql.toml"), encoding="utf-8") as file:
        (tmp_path / "text_to_sql.toml").write_text(file.read().rpartition("[[request]]")[0], encoding="utf-8")
    with pytest.raises(corpus.CorpusError, match="11 requests, not 12"):
        corpus.load("text_to_sql", tmp_path)


def test_two_kinds_are_played(tmp_path):
    """Without llama-server, which tests do not need: a script of its name starts our program."""
    stand_in, out = tmp_path / "llama-server", tmp_path / "result.json"
    stand_in.write_text(f'#!/bin/sh\n[ "$1" = --version ] || set -- serve "$@"\nexec "{binary()}" "$@"\n')
    stand_in.chmod(0o755)
    done = subprocess.run(
        [sys.executable, os.path.join(COMPARE, "run.py"), "--model", models.LLAMA_TINY.path, "--skippy", binary(),
         "--llama-server", stand_in, "--ours-only", "--scenario", "use_cases", "--use-case", "few_shot_classification",
         "--use-case", "open_chat", "--rounds", "1", "--threads", "1", "--verify", "--synthetic", "--json", out],
        capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    scenario = json.loads(out.read_text())["scenarios"]["use_cases"]
    assert scenario["status"] == "done" and scenario["gate"]["met"]
    assert list(scenario["rows"]) == ["few_shot_classification", "open_chat"]
    for row in scenario["rows"].values():
        assert row["title"] in done.stdout and row["gate"]["met"]
        [ours], [cold] = (row["contestants"][label]["rounds"] for label in ("skippy", "skippy, cold"))
        assert ours["evaluated"] == ours["ideal"] < ours["prompt_tokens"] == cold["evaluated"]
        assert sum(ours["cached_by_tier"].values()) == ours["prompt_tokens"] - ours["evaluated"]
        assert 0 < ours["first_ms"]["p50"] <= ours["first_ms"]["p95"] <= ours["first_ms"]["p99"]
        answers = row["answers"]["skippy, cold"]
        assert answers["compared"] == 12
        assert all(parting["gap"] < models.LLAMA_TINY.margin for parting in answers["partings"])


def test_an_unknown_kind_is_told():
    done = subprocess.run([sys.executable, os.path.join(COMPARE, "run.py"), "--model", models.LLAMA_TINY.path,
                           "--use-case", "poetry"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and "poetry" in done.stderr and "text_to_sql" in done.stderr
