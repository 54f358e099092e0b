"""What a policy asks about a run is counted in its journal and read from its plan."""

import datetime as dt

import pytest

from checkers.history import NEMESIS, Event, EventType, pair
from checkers.run_input import RunInput
from results.store.facts import builds_of, facts_of, started_of

MS = 1_000_000
DIGEST = "sha256:" + "89524f20db6edf6f" * 4


@pytest.mark.parametrize(
    ("plan", "names"),
    [
        ({}, ()),
        ({"versions": "4.3.1"}, ()),
        ({"versions": {"kraftprobe": "0.1.0"}}, ("0.1.0",)),
        ({"system": "shared-cells", "versions": {"kraftprobe": "0.1.0"}}, ()),
        (
            {"versions": {"kraftprobe": "0.1.0", "code": "ab12"}},
            ("0.1.0, code ab12", "0.1.0", "ab12"),
        ),
        (
            {"system": "apache-kafka", "versions": {"apache-kafka": "4.3.1, commit 9f3c"}},
            ("4.3.1, commit 9f3c", "4.3.1", "9f3c"),
        ),
        (
            {
                "system": "mixed",
                "versions": {"kraftprobe": "0.1.0", "apache-kafka": "4.3.1, commit 9f3c"},
            },
            ("4.3.1, commit 9f3c", "4.3.1", "9f3c"),
        ),
        (
            {"versions": {"kraft": "0.1.0, image a/b:7 sha256:8952", "image": f"a/b:7 {DIGEST}"}},
            (
                "0.1.0, image a/b:7 sha256:8952",
                "0.1.0",
                "a/b:7 sha256:8952",
                f"a/b:7 {DIGEST}",
                "a/b:7",
                DIGEST,
            ),
        ),
        (
            {"versions": {"kraftprobe": "0.1.0", "code": "77aa", "build": "rc1, commit 9f3c"}},
            (
                "0.1.0, code 77aa, build rc1, commit 9f3c",
                "0.1.0, code 77aa",
                "0.1.0",
                "77aa",
                "rc1, commit 9f3c",
                "rc1",
                "9f3c",
            ),
        ),
        ({"system": "mine", "versions": {"build": "rc1"}}, ("rc1",)),
    ],
)
def test_a_build_is_known_by_version_commit_image_and_digest(plan, names):
    assert builds_of(plan) == names


def test_a_run_began_when_its_name_says():
    assert started_of("20261121T010203Z-seed7") == dt.datetime(2026, 11, 21, 1, 2, 3, tzinfo=dt.UTC)
    assert started_of("20269921T010203Z-seed7") is None
    assert started_of("other") is None


def figures(*rows):
    """Figures of a history: (time in ms, process, type, function, value)."""
    events = [
        Event(index=i, time_ns=at * MS, process=process, type=EventType(kind), f=f, value=value)
        for i, (at, process, kind, f, value) in enumerate(rows)
    ]
    tried = {"duration_s": 1, "ok": 1, "leader_changes": 0, "faults_verified": {}}
    run = RunInput(events, pair(events), None)
    return facts_of({"run": "x"}, run, tried, measure=True).figures


def operation(begin, end, f="write", kind="ok", process=1):
    return [(begin, process, "invoke", f, "v"), (end, process, kind, f, "v")]


def fault(at, phase):
    return (at, NEMESIS, "info", "kill", {"phase": phase, "targets": ["n1"]})


HEAL = (5000, NEMESIS, "ok", "phase", {"name": "heal"})


def test_unavailability_is_the_longest_time_without_an_answer_to_those_who_asked():
    found = figures(*operation(0, 10), *operation(20, 900, kind="fail"), *operation(910, 1510))
    assert found["unavailability_s"] == pytest.approx(1.5)


def test_who_waits_for_an_answer_asks_until_the_clients_are_stopped():
    hangs = [(30, 1, "invoke", "write", "v"), (4000, 1, "info", "write", "v")]
    waits = [(40, 2, "invoke", "write", "v"), HEAL, (9000, 2, "info", "write", "v")]
    assert figures(*operation(0, 10), *hangs)["unavailability_s"] == pytest.approx(3.99)
    found = figures(*operation(0, 10), *waits, *operation(9500, 9600))
    assert found["unavailability_s"] == pytest.approx(4.99)


def test_a_pause_in_which_nobody_asks_since_the_cluster_heals_is_no_unavailability():
    found = figures(*operation(0, 10), *operation(20, 30), HEAL, *operation(9000, 9010, "read"))
    assert found["unavailability_s"] == pytest.approx(0.02)


def test_recovery_is_the_longest_time_from_a_fault_to_a_write():
    found = figures(*operation(0, 10), fault(100, "inject"), *operation(150, 400), HEAL)
    assert found["recovery_s"] == pytest.approx(0.3)


def test_a_fault_after_which_no_write_came_is_as_bad_as_it_was_awaited():
    found = figures(
        *operation(0, 10), fault(100, "inject"), *operation(150, 160, kind="fail"),
        *operation(2100, 2200, kind="fail"),
    )  # fmt: skip
    assert found["recovery_s"] == pytest.approx(2.0)


def test_latencies_of_reads_and_writes_are_apart():
    found = figures(*operation(0, 10), *operation(20, 22, "read"))
    assert (found["write_p99_ms"], found["read_p99_ms"]) == (10, 2)
    assert "read_p50_ms" not in figures(*operation(0, 10))
