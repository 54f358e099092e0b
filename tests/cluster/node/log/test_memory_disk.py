"""What the simulated disk keeps of appends that do not wait for a sync."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler


def disk() -> tuple[MemoryDisk, Scheduler]:
    steps = Scheduler()
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


@pytest.mark.parametrize("keep", ["written", "everything"])
def test_what_survived_a_kill_is_still_not_durable(keep):
    memory, _ = disk()
    memory.append("f", b"x", at_once=keep == "written")
    memory.crash(Random(0), keep)
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


@pytest.mark.parametrize("aside", [False, True])
def test_only_what_is_written_again_after_a_failed_sync_is_durable(aside):
    memory, steps = disk()
    memory.append("f", b"one ")
    for path in ("f", ""):
        (memory.sync if path else memory.sync_directory)(path, lambda error: None)
    steps.run()
    memory.append("f", b"two ", at_once=aside)
    memory.fail(OSError(5, "Input/output error"))
    memory.sync("f", lambda error: None, aside=aside)
    steps.run()
    memory.crash(Random(0), "written")
    assert memory.read("f") == b"one two "
    memory.append("f", b"three", at_once=True)
    memory.sync("f", lambda error: None)
    steps.run()
    assert memory.durable("f") == b"one \0\0\0\0three"
    memory.rewrite("f", 4)
    memory.sync("f", lambda error: None)
    steps.run()
    assert memory.durable("f") == b"one two three"


def test_a_power_loss_while_a_file_is_written_again_takes_nothing_that_was_durable():
    for seed in range(20):
        memory, steps = disk()
        memory.append("f", b"durable")
        for path in ("f", ""):
            (memory.sync if path else memory.sync_directory)(path, lambda error: None)
        steps.run()
        memory.rewrite("f", 2)
        memory.crash(Random(seed))
        assert memory.read("f") == b"durable"


def test_a_folder_that_could_not_be_synced_ends_the_file_system():
    memory, steps = disk()
    memory.append("f", b"x", at_once=True)
    memory.fail(OSError(5, "Input/output error"))
    memory.sync_directory("", lambda error: None)
    steps.run()
    memory.crash(Random(0), "written")
    assert not memory.exists("f")


@pytest.mark.parametrize("change", ["make", "rename", "remove"])
def test_a_folders_own_name_is_durable_once_the_folder_above_is_synced(change):
    memory, steps = disk()
    if change != "make":
        memory.make_directory("a/b")
        memory.append("a/b/f", b"x", at_once=True)
        for folder in ("", "a", "a/b"):
            memory.sync_directory(folder, lambda error: None)
        memory.sync("a/b/f", lambda error: None)
        steps.run()
    before = memory.files()
    if change == "make":
        memory.make_directory("a/b")
        memory.append("a/b/f", b"x", at_once=True)
        memory.sync("a/b/f", lambda error: None)
        memory.sync_directory("a/b", lambda error: None)
        steps.run()
    elif change == "rename":
        memory.rename("a/b", "a/c")
        assert (memory.exists("a/b"), memory.read("a/c/f")) == (False, b"x")
    else:
        memory.remove_directory("a/b")
        assert memory.files() == {}
    memory.crash(Random(0), "nothing")
    assert memory.files() == before
    assert memory.exists("a/b") == bool(before)


def test_reads_find_what_reached_the_kernel():
    memory, steps = disk()
    memory.append("f", b"one ", at_once=True)
    memory.append("f", b"two ")
    assert (memory.read("f"), memory.size("f")) == (b"one ", 4)
    memory.sync("f", lambda error: None)
    steps.run()
    assert memory.read("f", 2, 4) == b"e tw"


# --- syncs aside ---


def test_the_queue_goes_on_while_a_sync_aside_takes_its_time():
    memory, steps = disk()
    seen: list[str] = []
    memory.append("f", b"full", at_once=True)
    memory.sync("f", lambda error: seen.append("aside"), aside=True)
    memory.append("f", b" more", at_once=True)
    memory.barrier(lambda error: seen.append("barrier"))
    assert not memory.is_idle
    steps.step()
    assert (seen, memory.durable("f")) == (["barrier"], None)
    steps.run()
    assert seen == ["barrier", "aside"]
    assert (memory.is_idle, memory.syncs) == (True, 1)
    memory.sync_directory("", lambda error: None, aside=True)
    memory.append("g", b"later", at_once=True)
    steps.run()
    assert (memory.durable("f"), memory.durable("g")) == (b"full", None)
    assert memory.read("f") == b"full more"


def test_a_sync_aside_begins_when_the_queue_comes_to_it():
    memory, steps = disk()
    memory.append("f", b"a", at_once=True)
    memory.sync("f", lambda error: None)
    memory.append("f", b"b", at_once=True)
    memory.sync("f", lambda error: None, aside=True)
    memory.append("f", b"c", at_once=True)
    memory.sync_directory("", lambda error: None)
    steps.run()
    assert memory.durable("f") == b"ab"


def test_syncs_aside_follow_one_another_in_order():
    memory, steps = disk()
    seen: list[tuple[str, float]] = []
    for name in ("f", "g"):
        memory.append(name, b"x", at_once=True)
        memory.sync(name, lambda error, name=name: seen.append((name, steps.now_ms)), aside=True)
    steps.run()
    assert seen == [("f", 5.0), ("g", 10.0)]


def test_a_sync_aside_is_of_the_file_whatever_becomes_of_its_name():
    memory, steps = disk()
    memory.append("f", b"full", at_once=True)
    memory.sync("f", lambda error: None, aside=True)
    memory.rename("f", "g")
    memory.append("f", b"another", at_once=True)
    memory.sync_directory("", lambda error: None)
    steps.run()
    assert (memory.durable("g"), memory.durable("f")) == (b"full", b"")


def test_a_power_loss_during_a_sync_aside_may_take_all_of_it():
    memory, steps = disk()
    memory.append("f", b"full", at_once=True)
    memory.sync_directory("", lambda error: None)
    steps.run()
    seen: list[object] = []
    memory.sync("f", seen.append, aside=True)
    memory.crash(Random(0), "nothing")
    steps.run()
    assert (memory.files(), seen, memory.is_idle) == ({"f": b""}, [], True)
    memory.sync("f", seen.append, aside=True)
    steps.run()
    assert seen == [None]


@given(st.integers(0, 2**32), st.integers(0, 5))
def test_a_kill_keeps_a_prefix_of_a_queue_with_syncs_aside(seed, count):
    memory, steps = disk()
    memory.append("f", b"", at_once=True)
    memory.sync("f", lambda error: None)
    for number in range(count):
        memory.append("f", bytes([number]), at_once=True)
        memory.sync("f", lambda error: None, aside=True)
    memory.crash(Random(seed), "written")
    kept = memory.read("f")
    assert kept == bytes(range(len(kept)))
    seen: list[object] = []
    memory.sync("f", seen.append, aside=True)
    steps.run()
    assert seen == [None], "nothing of the killed process goes on"
    assert memory.syncs == 1


def test_a_stall_holds_a_sync_aside_and_not_the_queue():
    memory, steps = disk()
    seen: list[str] = []
    memory.append("f", b"full", at_once=True)
    memory.sync("f", lambda error: seen.append("first"), aside=True)
    memory.sync("f", lambda error: seen.append("second"), aside=True)
    memory.stall()
    memory.barrier(lambda error: seen.append("barrier"))
    steps.run()
    assert seen == ["barrier"]
    memory.resume()
    memory.stall()
    memory.resume()
    steps.run()
    assert seen == ["barrier", "first", "second"]


def test_a_sync_aside_that_fails_fails_the_disk():
    memory, steps = disk()
    error = OSError(5, "Input/output error")
    seen: list[OSError | None] = []
    memory.append("f", b"full", at_once=True)
    memory.sync("f", seen.append, aside=True)
    memory.fail(error)
    steps.run()
    memory.append("f", b" never", at_once=True)
    memory.sync("f", seen.append, aside=True)
    memory.barrier(seen.append)
    steps.run()
    assert seen == [error] * 3
    assert (memory.read("f"), memory.durable("f")) == (b"full", None)


def test_a_sync_aside_of_what_is_missing_fails_the_disk():
    memory, steps = disk()
    seen: list[OSError | None] = []
    memory.sync("nothing", seen.append, aside=True)
    memory.sync_directory("nowhere", seen.append, aside=True)
    steps.run()
    assert isinstance(seen[0], FileNotFoundError)
    assert seen[1] is seen[0]
