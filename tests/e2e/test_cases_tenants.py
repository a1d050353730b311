"""Who may find whose prefix. Fault kinds K6, K11."""
import httpx
import pytest

import models
from client import Client, HttpError
from talk import Talk

KEYS = {"x": "key-of-x", "y": "key-of-y"}


@pytest.fixture
def tenants(pool):
    server = pool.get(models.DEEPSEEK3, ctx=512, extra=("--api-key", ",".join(KEYS.values())), key=KEYS["x"])
    clients = {name: Client(server.process, key=key) for name, key in KEYS.items()}
    clients["x"].forget()
    return clients


@pytest.fixture
def prompt(pool):
    return Talk(pool, models.DEEPSEEK3, "tenants").prompts("p", 120)


def test_salt(tenants, prompt):
    """Another key never hits, not even with the owner's salt in its body; the same key does."""
    x, y = tenants["x"], tenants["y"]
    first = x.completion(prompt, 4, cache_salt="s")
    assert first.cached == 0
    for salt in ("s", KEYS["x"], "", "s\u0000"):
        assert y.completion(prompt, 4, cache_salt=salt).cached == 0, salt
        y.forget()
        x.completion(prompt, 4, cache_salt="s")
    again = x.completion(prompt, 4, cache_salt="s")
    assert again.cached >= len(prompt) - 1 and again.tokens == first.tokens


def test_tenants_pair(tenants, prompt):
    """Each key finds its own prefix and only that; the answers are equal."""
    x, y = tenants["x"], tenants["y"]
    answers = [c.completion(prompt, 4) for c in (x, y, x, y)]
    assert [a.cached > 0 for a in answers] == [False, False, True, True]
    assert len({tuple(a.tokens) for a in answers}) == 1


def test_salts_of_one_key_are_apart(tenants, prompt):
    x = tenants["x"]
    assert x.completion(prompt, 2, cache_salt="a").cached == 0
    assert x.completion(prompt, 2, cache_salt="b").cached == 0
    assert x.completion(prompt, 2).cached == 0
    assert x.completion(prompt, 2, cache_salt="a").cached > 0


def test_a_dry_run_tells_nothing_about_another_tenant(tenants, prompt):
    tenants["x"].completion(prompt, 2)
    look = tenants["y"].post("/cache/lookup", {"prompt": prompt})
    assert (look["cached_tokens"], look["first_different"], look["miss_reason"]) == (0, 0, "never_seen")
    assert tenants["x"].post("/cache/lookup", {"prompt": prompt})["cached_tokens"] > 0


def test_keys_are_demanded(tenants, prompt):
    process = tenants["x"].process
    with httpx.Client(base_url=process.url, timeout=30) as stranger:
        assert stranger.get("/health").status_code == 200, "health is public"
        for method, path in (("POST", "/completion"), ("POST", "/v1/chat/completions"), ("GET", "/slots"), ("GET", "/cache"),
                             ("GET", "/metrics"), ("POST", "/reset_prefix_cache"), ("POST", "/cache/lookup"),
                             ("GET", "/lora-adapters"), ("POST", "/tokenize"), ("POST", "/v1/messages"), ("GET", "/props")):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic " + KEYS["x"]}, {"X-Api-Key": "key-of-"},
                            {"Authorization": "Bearer " + KEYS["x"] + "x"}):
                response = stranger.request(method, path, headers=headers, json={"prompt": "x"} if method == "POST" else None)
                assert response.status_code == 401, (method, path, headers, response.status_code)
                assert response.json()["error"]["message"]
        ok = stranger.post("/completion", headers={"X-Api-Key": KEYS["x"]}, json={"prompt": prompt, "n_predict": 1})
        assert ok.status_code == 200


def test_no_page_shows_a_prompt_or_a_key(tenants, prompt):
    x = tenants["x"]
    x.post("/completion", {"prompt": "marmalade xylophone " * 10, "n_predict": 2})
    for path in ("/slots", "/cache", "/metrics", "/props"):
        page = x.request("GET", path).text
        for secret in ("marmalade", "xylophone", *KEYS.values()):
            assert secret not in page, path
    assert not any(secret in x.process.log() for secret in ("marmalade", *KEYS.values()))


def test_shared_cache_is_a_choice(pool, prompt):
    server = pool.get(models.DEEPSEEK3, ctx=512, key=KEYS["x"],
                      extra=("--shared-cache", "--api-key", KEYS["x"], "--api-key", KEYS["y"]))
    server.forget()
    other = Client(server.process, key=KEYS["y"])
    assert server.completion(prompt, 2).cached == 0
    assert other.completion(prompt, 2).cached > 0
    assert other.completion(prompt, 2, cache_salt="own").cached == 0


def test_key_file(pool, prompt, tmp_path):
    path = tmp_path / "keys"
    path.write_text("from-a-file\n\nsecond \r\n")
    process = pool.start(models.DEEPSEEK3, ctx=512, extra=("--api-key-file", str(path))).wait_until_healthy()
    for key in ("from-a-file", "second"):
        assert Client(process, key=key).completion(prompt, 1).prompt_tokens == len(prompt)
    with pytest.raises(HttpError) as caught:
        Client(process)
    assert caught.value.status == 401
    assert process.stop() == 0
