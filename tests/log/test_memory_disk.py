"""What the simulated disk keeps of appends that do not wait for a sync."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.backends.sim.disk import MemoryDisk
from tests.log.log_helpers import Steps


def disk() -> tuple[MemoryDisk, Steps]:
    steps = Steps()
    return MemoryDisk(steps.call_later, sync_ms=5.0), steps


def test_a_kill_keeps_what_was_appended_at_once_and_a_power_loss_need_not():
    for keep, expected in (
        ("written", b"one two "),
        ("nothing", b""),
        ("everything", b"one two three"),
    ):
        memory, _ = disk()
        memory.append("f", b"one ")
        memory.append("f", b"two ", at_once=True)
        memory.append("f", b"three")
        memory.append("g", b"waits")
        memory.crash(Random(0), keep)
        assert memory.files().get("f", b"") == expected
        assert memory.files().get("g", b"") == (b"waits" if keep == "everything" else b"")


def test_what_survived_a_kill_is_still_not_durable():
    memory, _ = disk()
    memory.append("f", b"x", at_once=True)
    memory.crash(Random(0), "written")
    assert memory.read("f") == b"x"
    memory.crash(Random(0), "nothing")
    assert not memory.exists("f")


@given(st.integers(0, 2**32), st.integers(0, 12))
def test_a_kill_keeps_a_prefix_of_the_queue_in_order(seed, count):
    memory, _ = disk()
    memory.append("f", b"", at_once=True)
    memory.sync("f", lambda error: None)  # what follows waits behind it
    for number in range(count):
        memory.append("fg"[number % 2], bytes([number]), at_once=True)
    memory.crash(Random(seed), "written")
    found = memory.files()
    kept = len(found["f"]) + len(found.get("g", b""))
    assert found["f"] == bytes(range(0, kept, 2))
    assert found.get("g", b"") == bytes(range(1, kept, 2))


def test_a_barrier_completes_behind_a_sync_and_shows_what_came_before():
    memory, steps = disk()
    memory.hides_unsynced = True
    seen: list[object] = []
    memory.append("f", b"a", at_once=True)
    memory.barrier(lambda error: seen.append((error, memory.read("f"))))
    assert seen == [], "never within the call"
    steps.run()
    assert seen == [(None, b"a")]
    memory.sync("f", lambda error: seen.append("sync"))
    memory.append("f", b"b", at_once=True)
    memory.barrier(lambda error: seen.append(memory.read("f")))
    steps.run()
    assert seen[1:] == ["sync", b"ab"]
    assert memory.syncs == 1


def test_a_stalled_disk_holds_barriers_only_behind_a_sync():
    memory, steps = disk()
    seen: list[str] = []
    memory.stall()
    memory.append("f", b"a", at_once=True)
    memory.barrier(lambda error: seen.append("first"))
    steps.run()
    assert seen == ["first"]
    memory.sync("f", lambda error: seen.append("sync"))
    memory.barrier(lambda error: seen.append("second"))
    steps.run()
    assert seen == ["first"]
    memory.resume()
    steps.run()
    assert seen == ["first", "sync", "second"]


@pytest.mark.parametrize("at_once", [False, True])
def test_a_full_disk_refuses_appends_of_both_kinds(at_once):
    memory, steps = disk()
    memory.full = True
    memory.append("f", b"a", at_once=at_once)
    errors: list[OSError | None] = []
    memory.barrier(errors.append)
    steps.run()
    assert errors[0] is not None
