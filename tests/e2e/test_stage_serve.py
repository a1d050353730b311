"""A model in stages, each in a process of its own, served by a coordinator: the answers and the reuse of the whole model,
and what happens when a stage dies.
"""
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

import models
from client import Client, HttpError, completion_body
from oracle import first_difference
from process import binary, free_port, poll
from prompts import Prompts
from stages import Coordinator, Deployment, StageProcess, cut

DATA = Path(__file__).parent / "data"
LAYERS = {models.SMOLLM2: "0..10,10..20,20..30", models.GEMMA3: "0..5,5..6,6..18",
          models.GEMMA3_TINY: "0..2,2..3,3..6", models.QWEN3NEXT: "0..3,3..7,7..8", models.LLAMA_TINY: "0..1,1..3,3..4"}
SECONDS = 60  # more than any request here takes
FLAGS = {"ctx": 1024, "lanes": 2}  # of the whole model's server, as the stages'


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Model -> folders of its stages, cut when first asked for."""
    made = {}

    def get(model):
        if model not in made:
            made[model] = cut(model, tmp_path_factory.mktemp(model.name), LAYERS[model])
        return made[model]
    return get


@pytest.fixture
def deploy(pool, packages, tmp_path):
    made = []

    def start(model, **options):
        made.append(Deployment(pool, tmp_path, packages(model), **options))
        return made[-1]
    yield start
    for deployment in made:
        for process in [deployment.coordinator, *deployment.stages]:
            process.send(9)
            process.wait(10)
            process.expected_codes = (-9,)


def connect(deployment):
    client = Client(deployment.coordinator)
    client.http.timeout = SECONDS
    return client


def told(answer):
    """All that must not depend on where the layers are."""
    return answer.tokens, answer.top, answer.cached, answer.raw["skippy"]["hit_kind"]


# -- answers and reuse ------------------------------------------------------------------------------------------------------

def play(client, prompts, size):
    """A conversation with all kinds of reuse, one request after the other."""
    base, other = prompts("base", size), prompts("other", size // 2)
    tails = prompts.tails(4, size // 4)
    heard = {}

    def ask(name, prompt, n_predict=4, **options):
        heard[name] = told(client.completion(prompt, n_predict, **options))
        return prompt + heard[name][0]

    longer = ask("cold", base, 64)
    ask("exact repeat", base, 8)
    longer = ask("append", longer + tails[0])
    ask("append again", longer + tails[1])
    ask("rewind", base[:size // 2 + 3])
    ask("branch", base[:size - 5] + tails[2])
    for turn in range(2):  # more conversations than lanes
        for which, tail in enumerate(tails[:3]):
            ask(f"alternate {which}/{turn}", other + tail + prompts(f"turn{turn}", 9 + 9 * turn))
    ask("sampled", base + tails[3], 8, temperature=0.8, seed=42)
    ask("not kept", prompts("private", 40), cache_prompt=False)
    return heard


@pytest.mark.parametrize("model", LAYERS, ids=lambda m: m.name)
def test_the_answers_and_the_reuse_are_the_whole_models(pool, deploy, model):
    whole = pool.get(model, **FLAGS)
    whole.forget()
    prompts = Prompts(whole, f"{model.name}/stages")
    size = 300 if model.synthetic else 120
    expected = play(whole, prompts, size)
    client = connect(deploy(model))
    heard = play(client, prompts, size)
    for name, wanted in expected.items():
        assert heard[name] == wanted, name
    client.check_counters()


def test_fan_out_and_parallel_requests(pool, deploy):
    model = models.SMOLLM2
    oracle = pool.oracle(model, **FLAGS)
    client = connect(deploy(model))
    prompts = Prompts(client, "parallel")
    base = prompts("base", 90)
    client.completion(base, 1)
    asked = [base + tail for tail in prompts.tails(4, 25)]
    for seen in (len(base), len(asked[0])):
        answers = client.many([lambda p=p: client.completion(p, 8) for p in asked], 4)
        for prompt, answer in zip(asked, answers):
            assert answer.cached >= seen - 1, answer.skippy
            oracle.check(answer, prompt, 8)
    client.check_counters()
    chat = client.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Name three colours."}], "n": 3,
                                                "max_tokens": 8, "temperature": 0})
    texts = {choice["message"]["content"] for choice in chat["choices"]}
    assert len(chat["choices"]) == 3 and len(texts) == 1, texts


def test_what_it_says_of_itself(deploy):
    deployment = deploy(models.SMOLLM2)
    client = connect(deployment)
    props = client.get("/props")
    assert props["stages"] == {"layers": 30, "ranges": ["0..10", "10..20", "20..30"], "wire": "f32"}
    assert props["model_alias"].startswith("smollm2") and props["model_alias"].endswith(".gguf")
    assert props["cache"]["policy"] == "resident_kv" and "in 3 stages" in props["cache"]["family"]
    assert "-exact by the self-test of" in props["cache"]["proof"]
    meta = client.get("/v1/models")["data"][0]["meta"]
    assert (meta["n_ctx"], meta["n_ctx_train"], meta["n_embd"]) == (1024, 8192, 576)
    assert meta["n_params"] == 134515008 and meta["size"] > 90_000_000
    assert len(client.get("/slots")) == 2
    assert client.tokenize("Hello there") and client.get("/lora-adapters") == []
    for path, body in (("/embedding", {"content": "x"}), ("/infill", {"input_prefix": "a", "input_suffix": "b"}),
                       ("/completion", {"prompt": "x", "lora": [{"id": 0, "scale": 1.0}]}),
                       ("/completion", {"prompt": [10 ** 6]})):
        with pytest.raises(HttpError) as refused:
            client.post(path, body)
        assert refused.value.error["message"], path
    log = deployment.coordinator.log()
    for stage, layers in zip(deployment.stages, ("0..10", "10..20", "20..30")):
        assert f"{layers} at {stage.address}" in log
        assert f"stage {layers} of smollm2" in stage.log()
        assert f"  address   {stage.address}" in stage.log()
    assert deployment.stop() == [0, 0, 0, 0]


def test_an_inexact_wire_is_told(deploy):
    deployment = deploy(models.LLAMA_TINY, extra=("--stage-wire", "int8"))
    client = connect(deployment)
    assert "WARNING   activations travel as int8" in deployment.coordinator.log()
    assert client.get("/props")["stages"]["wire"] == "int8"
    prompt = Prompts(client, "wire")("a", 100)
    first = client.completion(prompt)
    assert told(client.completion(prompt))[:2] == told(first)[:2]


def test_secret_and_tls(deploy, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("open-sesame\n")
    deployment = deploy(models.LLAMA_TINY, extra=("--stage-secret-file", secret, "--stage-ca", DATA / "stage-certificate.pem"),
                        stage_extra=("--secret-file", secret, "--tls-cert", DATA / "stage-certificate.pem",
                                     "--tls-key", DATA / "stage-key.pem"))
    client = connect(deployment)
    client.completion(Prompts(client, "tls")("a", 100))
    assert ", TLS, secret needed" in deployment.stages[0].log()
    for extra in ((), ("--stage-secret-file", secret)):  # no TLS, then no CA that signed it
        late = deployment.start_coordinator(*extra)
        late.expected_codes = (2,)
        assert late.wait(SECONDS) == 2, late.log()
        assert deployment.stages[-1].address in late.log()


# -- stages that die ---------------------------------------------------------------------------------------------------------

@dataclass
class Broken:
    """What a request that lost a stage on its way came to."""
    error: str = ""
    answer: object = None
    seconds: float = 0


def attempt(client, prompt, n_predict, started=None):
    """Streams, so that the test knows when generation runs; an error in the stream or in place of it."""
    result, begin, tokens = Broken(), time.monotonic(), []
    try:
        for event in client.events("/completion", completion_body(prompt, n_predict)):
            if "error" in event:
                result.error = event["error"]["message"]
                break
            tokens += event.get("tokens", [])
            if started and len(tokens) > 2:
                started.set()
            if event.get("stop"):
                result.answer = tokens
    except HttpError as error:
        assert error.status >= 500, error
        result.error = error.error["message"]
    except httpx.HTTPError as error:
        result.error = f"connection: {error}"
    result.seconds = time.monotonic() - begin
    return result


def break_during(client, prompt, n_predict, ready, kill):
    """Runs a request and kills when it is there."""
    started, results = threading.Event(), []
    thread = threading.Thread(target=lambda: results.append(attempt(client, prompt, n_predict, started)))
    thread.start()
    ready(started)
    kill()
    thread.join(SECONDS)
    assert not thread.is_alive(), "the request hangs"
    return results[0]


def generating(started):
    assert started.wait(SECONDS)


def prefilling(client):
    def ready(_):
        poll("a chunk of the prompt is done", lambda: any(
            slot["is_processing"] and slot["n_prompt_tokens_processed"] > 0 for slot in client.get("/slots")), every=0.002)
    return ready


each_stage = pytest.mark.parametrize("which", [0, 1, 2], ids=["first", "middle", "last"])
both_real_models = pytest.mark.parametrize("model", [models.SMOLLM2, models.GEMMA3], ids=lambda model: model.name)


@both_real_models
@each_stage
def test_a_stage_is_killed_and_comes_back(pool, deploy, model, which):
    """While idle, during a prefill and while generating: an error that names the stage, soon; right answers after it is back."""
    oracle = pool.oracle(model, **FLAGS)
    deployment = deploy(model)
    client = connect(deployment)
    prompts = Prompts(client, "killed")
    known, long = prompts("known", 100), prompts("long", 450)
    address = deployment.stages[which].address

    def check_broken(broken):
        assert broken.seconds < SECONDS
        if broken.answer is None:
            assert address in broken.error, broken.error
        else:
            assert not first_difference(broken.answer, cold_long, model.margin)

    def check_back(seen):
        """The next requests are right; what is reused was computed by the stages as they are now."""
        deployment.restart(which)
        answer = client.completion(known, 8)
        oracle.check(answer, known, 8)
        assert answer.cached <= seen, answer.skippy
        again = client.completion(known, 8)
        oracle.check(again, known, 8)
        assert again.cached >= len(known) - 1, again.skippy
        client.resync()

    cold_long = oracle.answer("completion", long, 40)
    oracle.check(client.completion(known, 8), known, 8)

    deployment.kill(which)
    check_broken(attempt(client, known + prompts("more", 20), 40))
    check_back(0)
    check_broken(break_during(client, long, 40, prefilling(client), lambda: deployment.kill(which)))
    check_back(0)
    check_broken(break_during(client, long, 40, generating, lambda: deployment.kill(which)))
    check_back(0)
    oracle.check(client.completion(long, 40), long, 40)


@both_real_models
@each_stage
def test_a_stage_is_cut_off_and_reached_again(pool, deploy, model, which):
    """The cable is pulled while idle, during a prefill and while generating: the stage, which goes on, still has its state."""
    oracle = pool.oracle(model, **FLAGS)
    deployment = deploy(model, proxies=True)
    client = connect(deployment)
    prompts = Prompts(client, "cut off")
    known, long = prompts("known", 100), prompts("long", 450)
    proxy = deployment.proxies[which]

    def check(broken):
        assert broken.seconds < SECONDS and broken.answer is None and proxy.address in broken.error, broken
        proxy.plug()
        answer = client.completion(known, 8)
        oracle.check(answer, known, 8)
        assert answer.cached >= len(known) - 1, answer.skippy
        client.resync()

    oracle.check(client.completion(known, 8), known, 8)
    proxy.pull()
    check(attempt(client, known + prompts("more", 20), 40))
    check(break_during(client, long, 40, prefilling(client), proxy.pull))
    check(break_during(client, prompts("other", 200), 200, generating, proxy.pull))
    oracle.check(client.completion(long, 40), long, 40)


def test_a_stage_that_hangs_does_not_hold_the_stop(deploy):
    deployment = deploy(models.SMOLLM2)
    client = connect(deployment)

    def hang_and_stop():
        deployment.stages[1].send(signal.SIGSTOP)
        deployment.coordinator.send(15)
    broken = break_during(client, Prompts(client, "hangs")("long", 450), 40, prefilling(client), hang_and_stop)
    assert broken.answer is None and broken.seconds < SECONDS
    assert deployment.coordinator.wait(15) == 0


def test_a_stage_that_lost_its_state_computes_it_again_alone(pool, deploy):
    model = models.SMOLLM2
    oracle = pool.oracle(model, **FLAGS)
    deployment = deploy(model, extra=("--stage-activations", "64"))
    client = connect(deployment)
    prompt = Prompts(client, "activations")("known", 100)
    client.completion(prompt, 8)
    for which in range(3):
        deployment.kill(which)
        deployment.restart(which)
        longer = prompt + prompt[:3 + which]
        answer = client.completion(longer, 8)
        oracle.check(answer, longer, 8)
        assert answer.cached >= len(prompt) - 1, (which, answer.skippy)


def test_a_stage_with_little_room_forgets_and_is_right(pool, deploy):
    model = models.LLAMA_TINY
    oracle = pool.oracle(model, **FLAGS)
    deployment = deploy(model, stage_extra=("--cache-ram", "1"))
    client = connect(deployment)
    prompts = Prompts(client, "room")
    asked = [prompts(f"p{i}", 800) for i in range(4)]
    cached = []
    for _ in range(2):
        for prompt in asked:
            answer = client.completion(prompt)
            oracle.check(answer, prompt)
            cached.append(answer.cached)
    assert min(cached[4:]) < 799, "something was forgotten, or this tests nothing"
    client.check_counters()


def test_stages_without_room_serve_without_a_cache(pool, deploy):
    model = models.LLAMA_TINY
    deployment = deploy(model, stage_extra=("--cache-ram", "0"))
    client = connect(deployment)
    prompt = Prompts(client, "none")("a", 100)
    for _ in range(2):
        pool.oracle(model, **FLAGS).check(client.completion(prompt), prompt)
    assert f"cache     off: stage 0..1 at {deployment.stages[0].address}" in deployment.coordinator.log()
    assert "--cache-ram" in client.get("/props")["cache"]["reason"]


def test_a_first_stage_that_stands_for_the_vocabulary(pool, tmp_path):
    model = models.SMOLLM2
    packages = cut(model, tmp_path / "packages", LAYERS[model], "--real-first-stage")
    shutil.rmtree(tmp_path / "packages" / "vocabulary")
    deployment = Deployment(pool, tmp_path, packages, vocabulary=packages[0])
    client = connect(deployment)
    prompt = Prompts(client, "first")("known", 100)
    oracle = pool.oracle(model, **FLAGS)
    for _ in range(2):
        answer = client.completion(prompt, 8)
        oracle.check(answer, prompt, 8)
    assert answer.cached >= len(prompt) - 1
    assert deployment.stop() == [0, 0, 0, 0]


def test_a_new_coordinator_finds_what_the_stages_kept(pool, deploy):
    model = models.SMOLLM2
    oracle = pool.oracle(model, **FLAGS)
    deployment = deploy(model)
    client = connect(deployment)
    prompt = Prompts(client, "recalled")("known", 150)
    oracle.check(client.completion(prompt, 8), prompt, 8)
    deployment.coordinator.send(15)
    assert deployment.coordinator.wait(15) == 0
    deployment.coordinator = deployment.start_coordinator().wait_until_healthy()
    client = connect(deployment)
    answer = client.completion(prompt, 8)
    oracle.check(answer, prompt, 8)
    assert answer.cached >= 128, answer.skippy


def test_a_reset_reaches_the_stages(deploy):
    client = connect(deploy(models.LLAMA_TINY))
    prompt = Prompts(client, "reset")("text", 200)
    client.completion(prompt, 4)
    assert client.completion(prompt, 4).cached == len(prompt)
    client.post("/reset_prefix_cache", {})
    assert client.completion(prompt, 4).cached == 0


# -- what cannot work is said before anything is computed -----------------------------------------------------------------------

@dataclass
class Served:
    model: object
    packages: list
    stages: list
    start: object


@pytest.fixture(scope="module")
def served(tmp_path_factory, packages):
    """Stages of a small model that stay up; and a way to start more."""
    folder = tmp_path_factory.mktemp("served")
    started = []

    def start(folders, **options):
        process = StageProcess(folders, folder / f"stage-{len(started)}.log", **options)
        started.append(process)
        return process.wait_until_listening()

    folders = packages(models.LLAMA_TINY)
    yield Served(models.LLAMA_TINY, folders, [start([package]) for package in folders], start)
    for process in started:
        process.send(15)
        assert process.wait(15) == 0


def refused(*arguments, says):
    done = subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, errors="replace",
                          timeout=SECONDS, stdin=subprocess.DEVNULL)
    assert done.returncode == 2, f"exit code {done.returncode}\n{done.stderr[-2000:]}"
    for words in [says] if isinstance(says, str) else says:
        assert words in done.stderr, f"{words!r} is not in: {done.stderr[-1500:]}"
    assert "testing" not in done.stderr, "nothing is computed"


def refused_by_coordinator(served, addresses, *extra, says):
    refused("serve", "--port", free_port(), "-m", served.packages[0].parent, "--stages", ",".join(addresses), *extra, says=says)


def addresses(served):
    return [stage.address for stage in served.stages]


def test_gap_and_overlap(served):
    every = addresses(served)
    refused_by_coordinator(served, every[:1] + every[2:], says=["no stage has the layers 1..3", "--stages"])
    refused_by_coordinator(served, every[:2], says="no stage has the layers 3..4")
    refused_by_coordinator(served, every + every[1:2], says=["overlap", every[1]])


def test_other_settings(served):
    other = served.start(served.packages[1:2], settings={"-c": 512})
    refused_by_coordinator(served, [addresses(served)[0], other.address, addresses(served)[2]],
                           says=[other.address, "positions a lane", "512", "1024", "-c"])


def test_another_model(served, packages):
    foreign = served.start(packages(models.GEMMA3_TINY)[1:2])
    refused_by_coordinator(served, [addresses(served)[0], foreign.address, addresses(served)[2]],
                           says=[foreign.address, "gemma3-tiny.gguf", "llama-tiny.gguf"])


def test_wrong_secret(served, tmp_path):
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text("open-sesame\n")
    wrong.write_text("open-barley\n")
    guarded = served.start(served.packages, extra=("--secret-file", right))
    for extra in ((), ("--stage-secret-file", wrong)):
        refused_by_coordinator(served, [guarded.address], *extra, says=[guarded.address, "secret"])


def test_nobody_there(served):
    refused_by_coordinator(served, [f"127.0.0.1:{free_port()}"], says="127.0.0.1:")
    refused_by_coordinator(served, ["nonsense"], says="nonsense")


def test_settings_belong_to_the_stages(served):
    refused_by_coordinator(served, addresses(served), "-c", "512", says=["--ctx-size", "skippy stage serve"])


def test_packages_where_models_should_be_and_the_other_way_round(served):
    folder = served.packages[0].parent
    for path in (folder, folder / "vocabulary", folder / "vocabulary" / "model.gguf"):
        refused("serve", "--port", free_port(), "-m", path, says="--stages")
    refused("serve", "--port", free_port(), "-m", served.model.path, "--stages", addresses(served)[0],
            says=["no vocabulary package", "skippy stage split"])
    for path in (served.packages[0], served.packages[0] / "model.gguf"):
        refused("serve", "--port", free_port(), "-m", path, says=["skippy stage serve", "--stages"])
    refused("stage", "serve", "--package", folder / "vocabulary", says="no stage")
    refused("stage", "serve", "--package", folder, says="is no stage package")
    refused("stage", "serve", "--package", f"{served.packages[0]},{served.packages[0]}", says="another package has layers")
    refused("stage", "serve", "--package", served.packages[0], "--listen", "0.0.0.0:0", says=["secret", "127.0.0.1"])
    refused("stage", "serve", "--package", served.packages[0], "--listen", served.stages[0].address, says="cannot listen")


@pytest.mark.parametrize("name", ["stage", "vocabulary"])
def test_truncated_package(served, tmp_path, name):
    source = served.packages[0] if name == "stage" else served.packages[0].parent / "vocabulary"
    broken = tmp_path / "vocabulary"
    shutil.copytree(source, broken)
    file = broken / "model.gguf"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    if name == "stage":
        refused("stage", "serve", "--package", broken, "--listen", "127.0.0.1:0", says=str(file))
    else:
        refused("serve", "--port", free_port(), "-m", broken, "--stages", ",".join(addresses(served)), says=str(file))


def test_several_stages_in_one_process(served, pool, tmp_path):
    both = served.start(served.packages[1:])
    started = pool.adopt(Coordinator(served.packages[0].parent, [both.address, addresses(served)[0]],
                                     tmp_path / "coordinator.log")).wait_until_healthy()
    client = Client(started)
    prompt = Prompts(client, "several")("a", 100)
    pool.oracle(served.model, **FLAGS).check(client.completion(prompt), prompt)
    assert started.stop() == 0
