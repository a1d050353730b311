"""A model that was cut one way and is cut another way: what the stages kept before is found by those that come after."""
import models
from client import Client
from prompts import Prompts
from stages import Deployment, cut

FLAGS = {"ctx": 1024, "lanes": 2}  # of the whole model's server, as the stages'


def deployed(pool, folder, layers, model, stage_extra=()):
    folder.mkdir()
    return Deployment(pool, folder, cut(model, folder / "packages", layers), stage_extra=stage_extra)


def stop(deployment):
    for process in [deployment.coordinator, *deployment.stages]:
        process.send(15)
        assert process.wait(15) == 0


def test_a_prefix_survives_another_cut(pool, tmp_path):
    """15+15 layers, then 20+10 in new processes that ask the old ones; then the old ones go."""
    model = models.SMOLLM2
    oracle = pool.oracle(model, **FLAGS)
    before = deployed(pool, tmp_path / "before", "0..15,15..30", model)
    client = Client(before.coordinator)
    prompts = Prompts(client, "recut")
    known, more, yet_more, other = (prompts(tag, length) for tag, length in
                                    (("known", 300), ("more", 30), ("yet more", 20), ("other", 120)))
    oracle.check(client.completion(known, 8), known, 8)

    peers = ("--peers", ",".join(stage.address for stage in before.stages))
    after = deployed(pool, tmp_path / "after", "0..20,20..30", model, stage_extra=peers)
    client = Client(after.coordinator)
    answer = client.completion(known + more, 8)
    oracle.check(answer, known + more, 8)
    assert answer.cached >= 256, answer.skippy   # all that was recorded up to a page's end

    stop(before)
    for prompt in (other, other + more):         # both lanes are taken
        oracle.check(client.completion(prompt, 8), prompt, 8)
    answer = client.completion(known + yet_more, 8)
    assert answer.cached >= 256, answer.skippy
    stop(after)


def test_peers_that_are_away_are_done_without(pool, tmp_path):
    model = models.LLAMA_TINY
    deployment = deployed(pool, tmp_path / "alone", "0..1,1..4", model, stage_extra=("--peers", "127.0.0.1:1"))
    client = Client(deployment.coordinator)
    prompt = Prompts(client, "alone")("text", 200)
    oracle = pool.oracle(model, **FLAGS)
    for _ in range(2):
        oracle.check(client.completion(prompt, 8), prompt, 8)
    stop(deployment)
