"""skippy serve with a bad command line or bad files: a clear message and exit code in seconds. Also help and version."""
import os
import socket
import struct
import subprocess

import pytest

import models
from process import binary, free_port

GOOD = models.DEEPSEEK3


def run(*arguments, timeout=60):
    done = subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=timeout,
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def refused(*arguments, says, code=2):
    got, out, err = run("serve", *arguments)
    assert got == code, f"exit code {got}\n{err[-2000:]}"
    last = err.strip().splitlines()[-1] if err.strip() else ""
    for word in [says] if isinstance(says, str) else says:
        assert word.lower() in err.lower(), f"{word!r} is not in: {err[-1500:]}"
    assert "terminate called" not in err and "GGML_ASSERT" not in err and "Segmentation" not in err
    assert last, "there is a message"
    return err


@pytest.fixture
def file(tmp_path):
    def make(content, name="model.gguf"):
        path = tmp_path / name
        path.write_bytes(content)
        return path
    return make


@pytest.fixture(scope="module")
def model_bytes():
    with open(GOOD.path, "rb") as f:
        return f.read()


def test_missing_file(tmp_path):
    path = tmp_path / "nothing.gguf"
    refused("--model", path, says=[str(path), "no such file"])


def test_directory(tmp_path):
    refused("--model", tmp_path, says=str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"GG", b"GGUF", b"hello, I am a text file\n" * 100, b"\x00" * 4096, b"FUGG" + b"\x00" * 100],
                         ids=["empty", "two_bytes", "magic_only", "text", "zeros", "reversed"])
def test_not_a_gguf(file, content):
    path = file(content)
    refused("--model", path, says=str(path))


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.99, 0.99999])
def test_truncated_gguf(file, model_bytes, share):
    path = file(model_bytes[: int(len(model_bytes) * share)])
    refused("--model", path, says=str(path))


@pytest.mark.parametrize("field, value", [(4, struct.pack("<I", 77)), (8, struct.pack("<Q", 2**62)), (16, struct.pack("<Q", 2**62)),
                                          (24, struct.pack("<Q", 2**63))], ids=["version", "tensor_count", "kv_count", "key_length"])
def test_gguf_with_impossible_numbers(file, model_bytes, field, value):
    path = file(model_bytes[:field] + value + model_bytes[field + len(value):])
    refused("--model", path, says=str(path))


def test_unreadable_file(tmp_path, model_bytes):
    """Root reads everything, so an unprivileged user is asked to; as one already, the mode alone is enough."""
    path = tmp_path / "secret.gguf"
    path.write_bytes(model_bytes)
    path.chmod(0)
    command = [binary(), "serve", "--model", str(path)]
    options = {}
    if os.geteuid() == 0:
        for parent in [tmp_path, *tmp_path.parents]:
            if parent.is_relative_to("/tmp") and parent != parent.parent:
                parent.chmod(parent.stat().st_mode | 0o011)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
        os.chmod(path, 0)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    if "Permission denied" in done.stderr and "setpriv" in done.stderr:
        pytest.fail("the binary itself is not readable by an unprivileged user")
    assert done.returncode == 2 and str(path) in done.stderr, done.stderr[-1000:]
    assert "permission" in done.stderr.lower() or "cannot" in done.stderr.lower(), done.stderr[-1000:]


def test_port_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run("serve", "--model", GOOD.path, "--port", port, "-c", 256)
        assert code in (1, 2) and str(port) in err, err[-1000:]


def test_bad_host():
    code, _, err = run("serve", "--model", GOOD.path, "--host", "no.such.host.invalid", "--port", free_port(), "-c", 256)
    assert code in (1, 2) and "no.such.host.invalid" in err, err[-1000:]


def test_context_larger_than_memory():
    """Said with both numbers before anything is allocated."""
    code, _, err = run("serve", "--model", models.SMOLLM2.path, "--port", free_port(), "-c", 16_000_000, "--lanes", 64, timeout=120)
    assert code in (1, 2) and len([w for w in err.split() if w.isdigit() and int(w) > 10**9]) == 2, err[-2000:]
    assert "terminate called" not in err and "GGML_ASSERT" not in err


def test_no_model():
    refused("--port", free_port(), says="--model")


@pytest.mark.parametrize("flag, nearest", [("--modle", "--model"), ("--ctx-sise", "--ctx-size"), ("--lane", "--lanes"),
                                           ("--no-cahce", "--no-cache"), ("--prt", "--port")])
def test_unknown_flag_names_the_nearest(flag, nearest):
    refused("--model", GOOD.path, flag, "1", says=[flag, nearest])


@pytest.mark.parametrize("arguments", [
    ("--port", "70000"), ("--port", "-1"), ("--port", "eighty"), ("--ctx-size", "-5"), ("--ctx-size", "x"), ("--ctx-size", ""),
    ("--lanes", "0"), ("--lanes", "-1"), ("--lanes", "100000"), ("--ubatch-size", "0"), ("--threads", "1e9"), ("--cache-ram", "-3"),
    ("--cache-ram", "lots"), ("--exactness", "roughly"), ("--cache-type-k", "q17"), ("--flash-attn", "maybe"),
    ("--max-queue", "0"), ("--temp", "-1"), ("--top-p", "2"), ("--seed", "x"), ("--n-predict", "99999999999999"),
    ("--reasoning-format", "x"), ("-c",), ("--host",)], ids=" ".join)
def test_bad_values_name_the_flag(arguments):
    names = {"-c": "--ctx-size"}
    refused("--model", GOOD.path, *arguments, says=names.get(arguments[0], arguments[0]))


@pytest.mark.parametrize("arguments, says", [
    (("--cache-reuse", "256"), "exact"), (("--context-shift",), "exact"), (("--embedding",), "embedding"),
    (("--mmproj", "x"), "text"), (("--cache-disk", "1"), "disk"), (("-hf", "a/b"), "--model"), (("model.gguf",), "--model")],
    ids=lambda v: v[0] if isinstance(v, tuple) else "")
def test_what_it_does_not_do_is_explained(arguments, says):
    refused("--model", GOOD.path, *arguments, says=says)


@pytest.mark.parametrize("flag", ["--api-key-file", "--chat-template-file", "--lora"])
def test_missing_files_of_other_flags(flag, tmp_path):
    refused("--model", GOOD.path, flag, tmp_path / "none", says=str(tmp_path / "none"))


def test_bad_chat_template(tmp_path):
    path = tmp_path / "bad.jinja"
    path.write_text("{% for x in %}{{ unclosed")
    refused("--model", GOOD.path, "--chat-template-file", path, "--port", free_port(), "-c", 256, says="template")


def test_lora_that_is_none(tmp_path):
    refused("--model", GOOD.path, "--lora", models.QWEN3NEXT.path, "--port", free_port(), "-c", 256, says=models.QWEN3NEXT.path)
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF?")
    refused("--model", GOOD.path, "--lora", path, "--port", free_port(), "-c", 256, says=str(path))


def test_two_problems_are_still_one_clear_message(tmp_path):
    refused("--model", tmp_path / "none", "--prot", "1", says="--prot")


def test_help_and_version():
    code, out, _ = run("--help")
    assert code == 0 and "serve" in out
    code, out, _ = run("serve", "--help")
    assert code == 0
    for flag in ("--model", "--ctx-size", "--lanes", "--cache-ram", "--no-cache", "--exactness", "--api-key-file"):
        assert flag in out
    code, out, _ = run("--version")
    assert code == 0 and "skippy" in out and any(c.isdigit() for c in out)


@pytest.mark.parametrize("arguments", [(), ("serv",), ("--nothing",), ("cache",), ("cache", "nothing"), ("cache", "status", "--url", "x")],
                         ids=lambda a: " ".join(a) or "none")
def test_wrong_commands(arguments):
    code, out, err = run(*arguments)
    assert code == 2 and (err.strip() or out.strip())


def test_cache_status_of_nobody():
    code, _, err = run("cache", "status", "--url", f"http://127.0.0.1:{free_port()}")
    assert code in (1, 2) and err.strip()
