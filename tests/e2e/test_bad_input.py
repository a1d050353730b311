"""Bad requests: a clear 4xx (or 501) each, and the server answers the next one as if nothing had been."""
import http.client
import json

import httpx
import pytest

import models
from client import HttpError

CHAT, COMPLETION = "/v1/chat/completions", "/completion"
USER = {"role": "user", "content": "hi"}
SHORT = {"max_tokens": 1, "n_predict": 1}


@pytest.fixture
def server(pool):
    """Gives the server, and afterwards asks it something normal."""
    client = pool.get(models.SMOLLM2, ctx=512)
    yield client
    answer = client.completion("One, two, three,", 2)
    assert answer.predicted == 2
    client.wait_idle()
    client.resync()


def refused(server, path, body, statuses=(400,)):
    """Sends a body (JSON value, or raw bytes) and returns the error object after checking its form."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = server.http.post(path, content=content, headers={"Content-Type": "application/json"})
    assert response.status_code in statuses, f"{response.status_code}: {response.text[:300]}"
    body = response.json()
    error = body["error"]
    assert error["message"] and error["type"], body
    assert len(error["message"]) < 2000, "an error message is for reading"
    return error


def nested(depth, kind="["):
    return b'{"messages":' + (b"[" * depth + b"]" * depth if kind == "[" else b'{"a":' * depth + b"1" + b"}" * depth) + b"}"


MALFORMED = {
    "empty": b"",
    "not_json": b"hello",
    "cut_off": b'{"prompt": "x"',
    "trailing": b'{"prompt": "x"} x',
    "array": b"[]",
    "number": b"7",
    "string": b'"x"',
    "null": b"null",
    "two_objects": b"{}{}",
    "comma": b'{"prompt": "x",}',
    "nan": b'{"prompt": "x", "temperature": NaN}',
    "nul_byte": b'{"prompt": "x"\x00}',
    "invalid_utf8": b'{"prompt": "\xff\xfe\x80"}',
    "overlong_utf8": b'{"prompt": "\xc0\xaf"}',
    "lone_surrogate": b'{"prompt": "\\ud800"}',
    "bom_only": b"\xef\xbb\xbf",
    "deep_array": nested(100_000),
    "deep_object": nested(100_000, "{"),
    "huge_exponent": b'{"prompt": "x", "n_predict": 1e999999}',
}


@pytest.mark.parametrize("path", [CHAT, COMPLETION, "/v1/messages", "/v1/responses", "/tokenize"])
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_body(server, path, name):
    refused(server, path, MALFORMED[name])


WRONG_CHAT = {
    "no_messages": {},
    "messages_string": {"messages": "hello"},
    "messages_empty": {"messages": []},
    "messages_of_numbers": {"messages": [1, 2]},
    "message_without_role": {"messages": [{"content": "x"}]},
    "unknown_role": {"messages": [{"role": "wizard", "content": "x"}]},
    "role_number": {"messages": [{"role": 5, "content": "x"}]},
    "content_number": {"messages": [{"role": "user", "content": 5}]},
    "content_unknown_part": {"messages": [{"role": "user", "content": [{"type": "smell", "smell": "x"}]}]},
    "content_part_string": {"messages": [{"role": "user", "content": ["x"]}]},
    "tools_string": {"messages": [USER], "tools": "x"},
    "tools_of_strings": {"messages": [USER], "tools": ["x"]},
    "tool_without_name": {"messages": [USER], "tools": [{"type": "function", "function": {}}]},
    "tool_choice_unknown": {"messages": [USER], "tools": [], "tool_choice": "perhaps"},
    "tool_choice_number": {"messages": [USER], "tool_choice": 7},
    "response_format_string": {"messages": [USER], "response_format": "json"},
    "response_format_unknown": {"messages": [USER], "response_format": {"type": "poem"}},
    "schema_string": {"messages": [USER], "response_format": {"type": "json_schema", "json_schema": {"schema": "x"}}},
    "schema_bad_ref": {"messages": [USER], "response_format": {
        "type": "json_schema", "json_schema": {"schema": {"$ref": "#/nowhere"}}}},
    "schema_bad_pattern": {"messages": [USER], "response_format": {
        "type": "json_schema", "json_schema": {"schema": {"type": "string", "pattern": "^([a-z$"}}}},
    "stream_string": {"messages": [USER], "stream": "yes"},
    "temperature_string": {"messages": [USER], "temperature": "hot"},
    "temperature_list": {"messages": [USER], "temperature": [1]},
    "max_tokens_string": {"messages": [USER], "max_tokens": "many"},
    "max_tokens_fraction": {"messages": [USER], "max_tokens": 1.5},
    "n_zero": {"messages": [USER], "n": 0},
    "n_negative": {"messages": [USER], "n": -1},
    "n_enormous": {"messages": [USER], "n": 10**6},
    "stop_number": {"messages": [USER], "stop": 5},
    "stop_of_numbers": {"messages": [USER], "stop": [5]},
    "seed_string": {"messages": [USER], "seed": "x"},
    "logit_bias_string": {"messages": [USER], "logit_bias": "x"},
    "top_logprobs_negative": {"messages": [USER], "logprobs": True, "top_logprobs": -3},
    "top_logprobs_string": {"messages": [USER], "logprobs": True, "top_logprobs": "x"},
    "cache_prompt_string": {"messages": [USER], "cache_prompt": "x"},
    "cache_salt_number": {"messages": [USER], "cache_salt": 5},
    "grammar_number": {"messages": [USER], "grammar": 5},
    "grammar_bad": {"messages": [USER], "grammar": "root ::= ("},
    "grammar_no_root": {"messages": [USER], "grammar": 'a ::= "x"'},
    "grammar_left_recursion": {"messages": [USER], "grammar": 'root ::= root "x"'},
    "grammar_undefined_rule": {"messages": [USER], "grammar": "root ::= nothing"},
}


@pytest.mark.parametrize("name", WRONG_CHAT)
def test_wrong_chat_request(server, name):
    refused(server, CHAT, {**SHORT, **WRONG_CHAT[name]})


WRONG_COMPLETION = {
    "no_prompt": {},
    "prompt_number": {"prompt": 5},
    "prompt_object": {"prompt": {"a": 1}},
    "prompt_empty_list": {"prompt": []},
    "prompt_negative_token": {"prompt": [-1]},
    "prompt_enormous_token": {"prompt": [10**9]},
    "prompt_token_over_64_bits": {"prompt": [2**70]},
    "prompt_token_fraction": {"prompt": [1.5]},
    "prompt_list_of_lists_of_lists": {"prompt": [[[1]]]},
    "grammar_and_schema": {"prompt": "x", "grammar": 'root ::= "a"', "json_schema": {"type": "object"}},
    "json_schema_number": {"prompt": "x", "json_schema": 5},
    "n_probs_string": {"prompt": "x", "n_probs": "x"},
    "samplers_number": {"prompt": "x", "samplers": 5},
    "lora_object": {"prompt": "x", "lora": {"id": 0}},
    "lora_unknown": {"prompt": "x", "lora": [{"id": 99, "scale": 1}]},
    "id_slot_string": {"prompt": "x", "id_slot": "x"},
    "image_data": {"prompt": {"prompt_string": "<__media__>", "multimodal_data": ["aGk="]}},
}


@pytest.mark.parametrize("name", WRONG_COMPLETION)
def test_wrong_completion_request(server, name):
    refused(server, COMPLETION, {**SHORT, **WRONG_COMPLETION[name]})


NUMBERS = [-1, -(2**31), 2**31, -(2**63), 2**63, 2**64, 10**40, 1e308, -1e308, 1e-320]
FIELDS = ["temperature", "top_p", "top_k", "min_p", "typical_p", "repeat_penalty", "repeat_last_n", "presence_penalty",
          "frequency_penalty", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "mirostat",
          "mirostat_tau", "mirostat_eta", "xtc_probability", "xtc_threshold", "dynatemp_range", "dynatemp_exponent",
          "top_n_sigma", "seed", "n_probs", "min_keep", "n_keep", "n_discard", "id_slot", "n_cache_reuse", "n_indent",
          "t_max_predict_ms", "n_predict", "max_tokens"]


@pytest.mark.parametrize("field", FIELDS)
def test_odd_numbers_are_refused_or_harmless(server, field):
    for number in NUMBERS:
        # a stop rule of its own, so that "no limit" values end too
        body = {"prompt": "a", "n_predict": 1, "grammar": 'root ::= "b" "c"?', field: number}
        try:
            assert server.post(COMPLETION, body)["tokens_predicted"] <= 4
        except HttpError as error:
            assert error.status == 400 and error.error["message"], f"{field}={number}: {error}"


def test_logit_bias_of_odd_tokens(server):
    for bias in [[[10**9, 1]], [[-1, 1]], [["", 1]], [["x", 1e308]], [[5, False]], {"-1": 5}, {"99999999999": 1}, [5], [[1]]]:
        try:
            server.post(COMPLETION, {"prompt": "a", "n_predict": 1, "logit_bias": bias})
        except HttpError as error:
            assert error.status == 400 and error.error["message"], f"{bias}: {error}"


@pytest.mark.parametrize("path", [CHAT, COMPLETION, "/v1/completions", "/v1/messages", "/v1/responses"])
def test_prompt_over_the_context_names_both_numbers(server, path):
    text = "word " * 700
    bodies = {CHAT: {"messages": [{"role": "user", "content": text}]}, "/v1/responses": {"input": text},
              "/v1/messages": {"messages": [{"role": "user", "content": text}], "max_tokens": 1}}
    error = refused(server, path, bodies.get(path, {"prompt": text}))
    numbers = [int(word) for word in error["message"].replace("(", " ").replace(")", " ").split() if word.isdigit()]
    assert 512 in numbers and any(700 <= n <= 760 for n in numbers), error


def test_prompt_of_exactly_the_context_is_refused_or_answered(server):
    tokens = server.tokenize("word " * 600, add_special=False)
    refused(server, COMPLETION, {"prompt": tokens[:513], "n_predict": 1})
    for length in (512, 511):
        try:
            assert server.completion(tokens[:length], 1).prompt_tokens == length
        except HttpError as error:
            assert error.status == 400 and length == 512


@pytest.mark.parametrize("prompt", ["", [""]], ids=["empty", "list_of_empty"])
def test_empty_prompt(server, prompt):
    """SmolLM2 adds no BOS, so an empty text is an empty prompt: refused, or answered from BOS as llama-server does."""
    try:
        server.post(COMPLETION, {"prompt": prompt, "n_predict": 1})
    except HttpError as error:
        assert error.status == 400 and error.error["message"]


def test_empty_batch_entry(server):
    try:
        server.post(COMPLETION, {"prompt": ["x", []], "n_predict": 1})
    except HttpError as error:
        assert error.status == 400 and error.error["message"]


def test_huge_body(server):
    """A hundred megabytes of text: refused by size or by tokens, never by death."""
    body = b'{"prompt": "' + b"word " * 20_000_000 + b'"}'
    try:
        response = server.http.post(COMPLETION, content=body, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 413), response.text[:300]
    except httpx.TransportError:
        pass  # a server may hang up on a body over its limit


def test_very_many_members(server):
    body = {"prompt": "x", "n_predict": 1, **{f"k{i}": i for i in range(200_000)}}
    refused(server, COMPLETION, body)


def test_schema_that_explodes(server):
    properties = {f"p{i}": {"type": "string"} for i in range(3000)}
    refused(server, CHAT, {"messages": [USER], **SHORT, "response_format": {
        "type": "json_schema", "json_schema": {"schema": {"type": "object", "properties": properties}}}})


@pytest.mark.parametrize("depth", [50, 5_000])
def test_deeply_nested_schema(server, depth):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    body = {"messages": [USER], **SHORT, "response_format": {"type": "json_schema", "json_schema": {"schema": None}}}
    text = json.dumps(body).replace("null", _dump(schema)).encode()
    response = server.http.post(CHAT, content=text, headers={"Content-Type": "application/json"})
    assert response.status_code == (200 if depth == 50 else 400) or depth == 50 and response.status_code == 400


def _dump(schema):
    """json.dumps recurses; this does not."""
    parts, closing = [], 0
    while "items" in schema:
        parts.append('{"type": "array", "items": ')
        schema, closing = schema["items"], closing + 1
    return "".join(parts) + json.dumps(schema) + "}" * closing


def test_deeply_nested_grammar(server):
    refused(server, COMPLETION, {"prompt": "x", "n_predict": 1, "grammar": "root ::= " + "(" * 50_000 + '"x"' + ")" * 50_000})


def test_grammar_that_explodes(server):
    try:
        server.post(COMPLETION, {"prompt": "x", "n_predict": 2, "grammar": 'root ::= (("a"{0,1000}){0,1000}){0,1000}'})
    except HttpError as error:
        assert error.status == 400 and error.error["message"]


def test_stop_list_of_many(server):
    body = {"prompt": "One, two,", "n_predict": 2, "stop": [f"stop {i}" for i in range(10_000)]}
    try:
        server.post(COMPLETION, body)
    except HttpError as error:
        assert error.status == 400


def test_empty_stop_string_stops_nothing(server):
    try:
        assert server.post(COMPLETION, {"prompt": "One, two,", "n_predict": 3, "stop": [""]})["tokens_predicted"] == 3
    except HttpError as error:
        assert error.status == 400


@pytest.mark.parametrize("path, body", [
    ("/v1/embeddings", {"input": "x"}), ("/embedding", {"content": "x"}), ("/v1/rerank", {"query": "x", "documents": ["y"]}),
    (CHAT, {"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]}]}),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}]}]}),
], ids=["embeddings", "embedding", "rerank", "image", "audio"])
def test_what_it_cannot_do_is_said(server, path, body):
    refused(server, path, body, statuses=(400, 501))


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nothing", "/v2/chat/completions", "/cache/nothing", "/%00", "/" + "a" * 5000])
def test_unknown_endpoint(server, path):
    try:
        response = server.http.request("POST", path, json={})
    except httpx.RemoteProtocolError:
        return  # hung up on nonsense
    assert response.status_code in (400, 404, 405, 414), response.status_code


def test_wrong_method(server):
    assert server.http.get(CHAT).status_code in (404, 405)
    assert server.http.delete("/health").status_code in (404, 405)


def test_not_http(server):
    for garbage in (b"\x00" * 100, b"GET\r\n\r\n", b"POST /completion HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                    b"POST /completion HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                    b"POST /completion HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
        connection = http.client.HTTPConnection("127.0.0.1", server.process.port, timeout=20)
        connection.connect()
        connection.sock.sendall(garbage)
        connection.close()


def test_body_that_never_ends(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.process.port, timeout=20)
    connection.connect()
    connection.sock.sendall(b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    assert server.completion("One, two, three,", 1).predicted == 1  # others are served meanwhile
    connection.close()


def test_tokenize_and_detokenize_of_nonsense(server):
    for body in ({}, {"content": 5}, {"content": {"a": 1}}):
        try:
            server.post("/tokenize", body)
        except HttpError as error:
            assert error.status == 400
    for tokens in ([-1], [10**9], ["x"], "x", 5, [[1]], [2**70], [1.5]):
        refused(server, "/detokenize", {"tokens": tokens})


@pytest.mark.parametrize("body", [{"messages": "x"}, {"messages": [{"role": "user"}]}, {"messages": [{"role": "wizard", "content": "x"}]}])
def test_apply_template_of_nonsense(server, body):
    refused(server, "/apply-template", body)


def test_more_messages_than_the_context_has_tokens_are_refused_unrendered(server):
    """Rendering them would take seconds and hundreds of megabytes."""
    before = server.process.resident_bytes()
    error = refused(server, CHAT, {"messages": [USER] * 50_000, **SHORT})
    assert "at least 50000 tokens" in error["message"] and "512" in error["message"]
    assert server.process.resident_bytes() - before < 100 << 20


def test_a_text_too_long_to_be_tokenized_is_said_to_be_at_least_so_long(server):
    error = refused(server, COMPLETION, {"prompt": "word " * 200_000, **SHORT})
    assert "at least" in error["message"] and "512" in error["message"]
