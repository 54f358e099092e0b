"""What all tests rely on, however they were started."""

import gc
import os
import signal
from collections import Counter

import pytest
from hypothesis import settings

# How long an example takes means nothing on a machine that runs other programs, too.
settings.register_profile("kraftprobe", deadline=None)
settings.load_profile("kraftprobe")

# A shell lets what it starts in the background ignore Ctrl-C, and nohup lets it ignore SIGHUP.
# Its child processes inherit that: those that tests interrupt would ignore the signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Modules and collected tests are a million objects that live as long as the process: until all are
# there the collector finds nothing, and later it would walk over them in a quarter of the time of
# tests.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def _in_ci(report):
    """Where CI runs, what a test lacks is CI's to bring: a skip is a failure there."""
    if report.outcome == "skipped" and os.environ.get("CI") == "true":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped, but in CI nothing is: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _in_ci((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _in_ci((yield))


FIRST = (
    "tests/runs/test_own_system.py",
    "tests/readme/test_readme.py",
    "tests/runs/",
    "tests/cluster/ssh/",
    "tests/harness/sim/test_batches.py",
)
"""Files of minutes: begun last, each would leave the other processes idle at the end."""


WAITING, LONG = ("cluster", "spark"), ("cluster", "spark", "browser", "slow")
"""Marks of tests that wait more than they compute, and of all that take long."""


def pytest_collection_modifyitems(items):
    """Put the longest files first, then spread those that wait evenly among those that compute.

    Processes that all wait leave the cores idle, and those that all compute wait for each other.
    The fewer long tests a file has, the later it is begun, and the last ones only compute: so all
    processes end together.
    """
    waiting = {item.path for item in items if any(map(item.get_closest_marker, WAITING))}
    long = Counter(item.path for item in items if any(map(item.get_closest_marker, LONG)))
    rank = {}
    for item in items:
        begun = (place for place, start in enumerate(FIRST) if item.nodeid.startswith(start))
        rank[item.path] = next(begun, len(FIRST))
    for waits in (True, False):
        alike = [path for path in rank if rank[path] == len(FIRST) and (path in waiting) is waits]
        for number, path in enumerate(sorted(alike, key=lambda path: -long[path])):
            rank[path] += (number + 0.5) / len(alike) * (0.8 if waits else 1.0)
    items.sort(key=lambda item: rank[item.path])


@pytest.fixture(autouse=True, scope="session")
def _state_of_tests(tmp_path_factory):
    """Keep what Kraftprobe remembers out of the state folder of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
