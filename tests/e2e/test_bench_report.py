"""Time against prefix length with two servers; rendering: the repository shows its stored results, charts are drawn."""
import importlib
import json
import os
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest

import models
from process import REPOSITORY, binary

for folder in ("bench/compare", "tools", "tests/bench"):
    sys.path.append(str(REPOSITORY / folder))
bench_families, prefix_results = (importlib.import_module(name) for name in ("bench_families", "prefix_results"))

REFERENCE = os.environ.get("SKIPPY_REFERENCE_SERVER") or str(REPOSITORY / "build" / "llama-server")


def python(script, *arguments):
    done = subprocess.run([sys.executable, REPOSITORY / script, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def test_readme_and_docs_show_the_stored_results():
    code, _, err = python("tools/render_results.py", "--check")
    assert code == 0, err


@pytest.fixture
def site(tmp_path):
    """A readme, docs and results of its own: one real model, made up, and a replay."""
    results = tmp_path / "results"
    for folder in ("families", "replay"):
        (results / folder).mkdir(parents=True)
    (results / "families" / "real.json").write_text(json.dumps(prefix_results.whole()))
    rows = [{"policy": "lru", "cap_tokens": cap, "cached_tokens": cap, "prompt_tokens": 100,
             "optimum": {"cached_tokens": 90}} for cap in (10, 80)]
    (results / "replay" / "a.json").write_text(json.dumps({
        "format": 1, "title": "attention & more", "command": "replay it", "commit": "c0ffee",
        "replay": {"schema": "skippy-replay", "rows": rows}}))
    (tmp_path / "README.md").write_text("# A name\n<!-- bench:begin -->\n<!-- bench:end -->\nThe end.\n")
    return tmp_path


def render(site, *flags):
    return python("tools/render_results.py", "--results", site / "results", "--readme", site / "README.md",
                  "--docs", site / "docs", *flags)


def test_one_command_renders_all_and_check_notices_each_thing_that_is_old(site):
    assert render(site, "--check")[0] == 1
    code, written, err = render(site)
    assert code == 0, err
    assert len(written.splitlines()) == 5
    assert render(site, "--check") == (0, "", "")
    assert render(site) == (0, "", "")
    text = (site / "README.md").read_text()
    assert text.startswith("# A name\n") and text.endswith("The end.\n") and "(docs/charts/ttft.svg)" in text
    for name, old, new in (("README.md", "10.0", "11.0"), ("docs/evidence/production.md", "10.0", "11.0"),
                           ("docs/evidence/benchmarks.md", "Not measured", "Measured"),
                           ("docs/charts/ttft.svg", "digest ", "digest 0"),
                           ("docs/charts/hit_rate.svg", "digest ", "")):
        kept = (site / name).read_text()
        assert old in kept
        (site / name).write_text(kept.replace(old, new))
        code, _, err = render(site, "--check")
        assert code == 1 and name in err and len(err.splitlines()) == 1
        (site / name).write_text(kept)


def test_charts_are_the_same_bytes_each_time_with_text_as_text(site):
    render(site)
    charts = {path.name: path.read_bytes() for path in (site / "docs" / "charts").iterdir()}
    assert sorted(charts) == ["hit_rate.svg", "ttft.svg"]
    shutil.rmtree(site / "docs" / "charts")
    render(site)
    for name, before in charts.items():
        assert (site / "docs" / "charts" / name).read_bytes() == before
        words = " ".join(ElementTree.fromstring(before).itertext())
        for word in {"ttft.svg": ("first token, ms", "prefix length, tokens", "skippy, warm", "0123456789", "a CPU"),
                     "hit_rate.svg": ("room in the cache, tokens", "attention & more", "optimum", "c0ffee")}[name]:
            assert word in words, (name, word)


def test_bad_results_and_readmes_are_told(site):
    (site / "README.md").write_text("no markers")
    code, _, err = render(site)
    assert code == 2 and "README.md: no <!-- bench:begin -->" in err
    (site / "results" / "broken.json").write_text("{")
    code, _, err = render(site, "--check")
    assert code == 2 and "broken.json" in err and not (site / "docs").exists()


def test_prefix_lengths_are_measured_with_two_servers(tmp_path):
    out = tmp_path / "prefix.json"
    code, table, err = python(
        "bench/compare/run.py", "--skippy", binary(), "--llama-server", REFERENCE, "--model", models.FALCON_H1.path,
        "--synthetic", "--threads", 1, "--scenario", "prefix", "--lengths", "48,100000", "--generate", "1,3",
        "--concurrency", "1,2", "--rounds", 1, "--ubatch", 64, "--json", out)
    assert code in (0, 1), err   # 1: slower, on a busy machine
    scenario = json.loads(out.read_text())["scenarios"]["prefix_reuse"]
    assert scenario["status"] == "done" and scenario["gate"] == {"met": True, "why_not": []}, scenario["gate"]
    steps = [f"{length}/{generated}/{clients}/{step}" for clients in (1, 2) for length in (48, 100000)
             for generated, step in ((3, "cold"), (1, "repeat"), (1, "extend"), (3, "repeat"), (3, "extend"))]
    assert list(scenario["rows"]) == steps
    for name, row in scenario["rows"].items():
        if name.startswith("100000/"):
            assert row["verdict"] == "does not fit" and "against" not in row
            continue
        assert list(row["against"]) == ["llama-server", "llama-server, best settings"]
        most = 0 if row["step"] == "repeat" else 2 * (48 + 16)
        assert row["evaluated"]["skippy"] <= most, name
        for clocks in row["against"].values():
            assert 0 < clocks["first"]["b"]["median"] <= clocks["total"]["b"]["median"]
        assert row["title"] in table
    for cell in scenario["cells"].values():
        for label, source in (("skippy", "measured"), ("llama-server", "derived")):
            assert cell["cache_bytes"][label]["source"] == source and cell["cache_bytes"][label]["bytes"] > 0
        assert all(told["peak"] > 0 for told in cell["memory"].values())
        assert cell["answers"]["warm as cold"]["skippy"]["compared"] > 0
    code, _, err = python("bench/compare/run.py", "--model", models.FALCON_H1.path, "--lengths", "many")
    assert code == 2 and "'many' is not a list of numbers" in err


def test_every_family_that_is_served_has_a_model_in_the_production_table():
    families = bench_families.all_families(binary())
    rows = bench_families.plan(families, None)
    assert {row[0] for row in rows} == {family["name"] for family in families if family["policy"] != "off"}
    for _, _, fixture, lengths in rows:
        assert (fixture is None) == (lengths == bench_families.REAL_LENGTHS)
    code, _, err = python("tools/bench_families.py", "--skippy", binary(), "--family", "lama")
    assert code == 2 and "no such family: lama" in err
