"""The use-case corpus: what twelve requests of one kind of user look like, one TOML file a kind, all written by us.

A file holds `title`, `system` (the prompt that all its requests begin with), optionally `tools` (a JSON list of OpenAI
function definitions) and `[documents]`, and twelve `[[request]]`, in the order of sending:

    user | tool     what is new: a question, or the result of the call before
    documents       names of documents that stand before the question, in this order
    conversation    goes on where the last request of that name ended; without it the request stands alone
    answer, call    the assistant's turn, for the next request of the conversation

The turns of the assistant are written here although a client would send what the server answered: answers part where
two tokens are nearly alike, and then two servers would get different prompts and the times would not be of equal work.
Tools and calls are put into the prompts as text, in the form that many models are trained on, because not every server
and template renders them: llama-server leaves out `tools` where the model's template does not name them.
"""
import json
import os
import tomllib
from dataclasses import dataclass

FOLDER = os.path.dirname(os.path.abspath(__file__))
KINDS = ("tool_calling", "text_to_sql", "coding_agent", "issue_fixing", "code_refinement", "few_shot_classification",
         "open_chat", "summarisation_rag")
REQUESTS = 12
FILE_KEYS = {"title", "system", "tools", "documents", "request"}
REQUEST_KEYS = {"user", "tool", "documents", "conversation", "answer", "call"}
TOOL_KEYS = ("name", "description", "parameters")


class CorpusError(Exception):
    """A file of the corpus is broken; the message begins with its name and the place."""


@dataclass(frozen=True)
class UseCase:
    name: str
    title: str
    requests: list      # of lists of messages, {"role", "content"}; each list is one chat request


def load(name, folder=FOLDER):
    """Raises CorpusError with file and place when something is missing or does not fit together."""
    path = os.path.join(folder, name + ".toml")
    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path}: {error}") from error
    _keys(path, data, FILE_KEYS)
    tools = _tools(path, data["tools"]) if "tools" in data else {}
    system = _text(path, data, "system")
    documents = data.get("documents", {})
    for key in documents:
        _text(f"{path}: documents", documents, key)
    entries = data.get("request", [])
    _must(len(entries) == REQUESTS, path, f"{len(entries)} requests, not {REQUESTS}")
    play = _Play({"role": "system", "content": system + _tools_text(tools)}, tools, documents)
    requests = [play.request(f"{path}: request {i}", entry) for i, entry in enumerate(entries, 1)]
    return UseCase(name, _text(path, data, "title"), requests)


class _Play:
    """The conversations of a file as they grow."""

    def __init__(self, system, tools, documents):
        self._system, self._tools, self._documents = system, tools, documents
        self._histories = {}      # by conversation; None: it has ended
        self._called = set()      # conversations whose last turn is a call

    def request(self, place, entry):
        _keys(place, entry, REQUEST_KEYS)
        name = _text(place, entry, "conversation") if "conversation" in entry else None
        history = self._histories.get(name, [self._system])
        _must(history is not None, place, f"conversation '{name}' has no answer to go on from")
        messages = [*history, {"role": "user", "content": self._content(place, entry, name)}]
        answer = self._answer(place, entry)
        _must(name is not None or not answer, place, "an answer that no later request sees: it needs a 'conversation'")
        if name is not None:
            self._histories[name] = [*messages, {"role": "assistant", "content": answer}] if answer else None
            (self._called.add if "call" in entry else self._called.discard)(name)
        return messages

    def _content(self, place, entry, name):
        _must(("user" in entry) != ("tool" in entry), place, "needs either 'user' or 'tool'")
        if "tool" in entry:
            _must(name in self._called, place, "the result of a tool, but the turn before it is not a call")
            return f"<tool_response>\n{_text(place, entry, 'tool')}\n</tool_response>"
        parts = []
        for document in entry.get("documents", []):
            _must(document in self._documents, place, f"there is no document '{document}'")
            parts.append(f"[{document}]\n{_text(place, self._documents, document)}")
        question = _text(place, entry, "user")
        return "\n\n".join([*parts, f"Question: {question}"]) if parts else question

    def _answer(self, place, entry):
        parts = [_text(place, entry, "answer")] if "answer" in entry else []
        if "call" in entry:
            call = entry["call"]
            _must(isinstance(call, dict) and set(call) == {"name", "arguments"} and isinstance(call["arguments"], dict),
                  place, "a call has a name and arguments")
            _must(call["name"] in self._tools, place, f"there is no tool '{call['name']}'")
            accepted = self._tools[call["name"]]["parameters"]
            for key in accepted.get("required", []):
                _must(key in call["arguments"], place, f"the call of {call['name']} lacks '{key}'")
            for key in call["arguments"]:
                _must(key in accepted["properties"], place, f"{call['name']} does not take '{key}'")
            parts.append(f"<tool_call>\n{_json(call)}\n</tool_call>")
        return "\n".join(parts)


def _tools(path, text):
    """By name."""
    try:
        tools = {tool["name"]: {key: tool[key] for key in TOOL_KEYS} for tool in json.loads(text)}
        assert all(isinstance(tool["parameters"]["properties"], dict) for tool in tools.values()), "no properties"
    except (AssertionError, ValueError, TypeError, KeyError) as error:
        raise CorpusError(f"{path}: tools: not a list of functions with {', '.join(TOOL_KEYS)}: {error!r}") from error
    return tools


def _tools_text(tools):
    if not tools:
        return ""
    lines = "\n".join(_json({"type": "function", "function": tool}) for tool in tools.values())
    return ("\n\nYou can call functions. Their descriptions, one JSON object a line:\n"
            f"<tools>\n{lines}\n</tools>\nTo call a function, answer with its name and arguments as JSON:\n"
            '<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>')


def _json(value):
    return json.dumps(value, ensure_ascii=False)


def _text(place, table, key):
    """Without the line break at its end, which TOML's long strings have."""
    _must(key in table, place, f"'{key}' is missing")
    _must(isinstance(table[key], str) and table[key].strip(), place, f"'{key}' is not a text")
    return table[key].rstrip("\n")


def _keys(place, table, known):
    for key in table:
        _must(key in known, place, f"unknown '{key}'; there are: {', '.join(sorted(known))}")


def _must(holds, place, problem):
    if not holds:
        raise CorpusError(f"{place}: {problem}")
