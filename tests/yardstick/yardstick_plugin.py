"""pytest plugin of the copied suite: nothing is fetched, and every outcome goes to $YARDSTICK_NOTES as a JSON line."""
import json
import os
import random
import sys
import types

import pytest


def _refuse(*_, **__):
    raise RuntimeError("the yardstick fetches nothing")


# The suite downloads adapters and images with `wget`, a package that is not needed for anything else.
sys.modules["wget"] = types.SimpleNamespace(download=_refuse)


def pytest_configure(config):
    import utils  # the suite's; its presets are started once to fill the hub's cache
    utils.ServerPreset.load_all = staticmethod(lambda: None)


@pytest.fixture(autouse=True)
def same_draws_every_time():
    random.seed(0)


def _note(test, outcome, detail=""):
    with open(os.environ["YARDSTICK_NOTES"], "a", encoding="utf-8") as out:
        out.write(json.dumps({"test": test, "outcome": outcome, "detail": detail}) + "\n")


def pytest_deselected(items):
    for item in items:
        _note(item.nodeid, "deselected")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _note(item.nodeid, "skipped", reason)
    elif report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        _note(item.nodeid, "failed", crash.message if crash else str(report.longrepr))
    elif report.when == "call":
        _note(item.nodeid, "passed")
