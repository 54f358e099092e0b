import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from cluster.node.runtime.disk import DiskLockedError, FileDisk
from tests.play import play


def run(body, folder: Path) -> None:
    """Run `body(disk)` on a fresh loop and a fresh disk."""

    async def main() -> None:
        disk = FileDisk(folder, asyncio.get_running_loop())
        try:
            await body(disk)
        finally:
            disk.close()

    asyncio.run(main())


async def synced(disk: FileDisk, path: str, *, directory: bool = False) -> OSError | None:
    future: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    (disk.sync_directory if directory else disk.sync)(path, future.set_result)
    return await asyncio.wait_for(future, 300)


@pytest.fixture
def syncs(monkeypatch) -> list[int]:
    """The threads that called fdatasync, one entry a call."""
    calls: list[int] = []
    real = os.fdatasync

    def counted(descriptor: int) -> None:
        calls.append(threading.get_ident())
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", counted)
    return calls


def test_appends_reach_the_file_in_order_at_a_sync(tmp_path):
    async def body(disk: FileDisk) -> None:
        for part in (b"a", b"b", b"c"):
            disk.append("f", part)
        assert await synced(disk, "other-missing-is-an-error") is not None

    async def good(disk: FileDisk) -> None:
        for part in (b"a", b"b", b"c"):
            disk.append("f", part)
        assert await synced(disk, "f") is None
        assert (tmp_path / "f").read_bytes() == disk.read("f") == b"abc"
        disk.append("f", b"d")
        assert await synced(disk, "f") is None
        assert (disk.read("f", 1, 2), disk.size("f")) == (b"bc", 4)

    run(body, tmp_path / "bad")
    run(good, tmp_path)


@play(run, given="tmp_path")
async def test_changes_are_applied_in_queue_order(disk: FileDisk):
    disk.make_directory("d")
    disk.append("d/f", b"0123456789")
    disk.truncate("d/f", 6)
    disk.append("d/f", b"ab")
    disk.sync("d/f", lambda error: None)
    disk.truncate("d/f", 7)
    disk.append("d/f", b"cd")
    disk.truncate("d/f", 3)
    disk.append("d/f", b"-")
    disk.write("d/w", b"long content")
    disk.write("d/w", b"short")
    disk.rename("d/w", "d/x")
    disk.append("d/gone", b"x")
    disk.remove("d/gone")
    disk.remove("d/never-there")
    assert await synced(disk, "d/f") is None
    assert await synced(disk, "d", directory=True) is None
    assert disk.list_directory("d") == ("f", "x")
    assert disk.read("d/f") == b"012-"
    assert disk.read("d/x") == b"short"
    assert (disk.exists("d/w"), disk.exists("d")) == (False, True)
    assert disk.list_directory("nowhere") == ()
    with pytest.raises(FileNotFoundError):
        disk.read("d/w")


@play(run, given="tmp_path")
async def test_a_file_renamed_with_unsynced_bytes_gets_them_at_its_sync(disk: FileDisk):
    disk.append("a", b"xyz")
    disk.rename("a", "b")
    assert await synced(disk, "", directory=True) is None
    assert disk.read("b") == b""
    assert await synced(disk, "b") is None
    assert disk.read("b") == b"xyz"


@play(run, given="tmp_path")
async def test_syncs_without_a_change_between_cost_one_fsync(disk: FileDisk, *, syncs):
    disk.append("f", b"a")
    for _ in range(20):
        disk.sync("f", lambda error: None)
    assert await synced(disk, "f") is None
    assert len(syncs) == 1
    disk.truncate("f", 0)
    assert await synced(disk, "f") is None
    assert len(syncs) == 2


@play(run, given="tmp_path")
async def test_the_loop_goes_on_while_an_fsync_stalls(disk: FileDisk, *, monkeypatch):
    stalled, let_go = threading.Event(), threading.Event()

    def stall(descriptor: int) -> None:
        assert threading.current_thread().name == "disk"
        stalled.set()
        assert let_go.wait(300)

    monkeypatch.setattr(os, "fdatasync", stall)
    loop = asyncio.get_running_loop()
    completions: list[tuple[OSError | None, str]] = []
    disk.append("f", b"a")
    disk.sync("f", lambda e: completions.append((e, threading.current_thread().name)))
    assert await asyncio.to_thread(stalled.wait, 300)
    turns = 0
    for _ in range(1000):
        disk.append("f", b"b")
        turns += await asyncio.sleep(0, 1)
    assert (turns, completions) == (1000, [])
    let_go.set()
    assert await synced(disk, "f") is None
    assert completions == [(None, threading.main_thread().name)]
    assert loop.is_running()


@play(run, given="tmp_path")
async def test_the_first_error_stays_and_nothing_is_applied_after_it(
    disk: FileDisk, *, monkeypatch
):
    tries: list[int] = []

    def broken(descriptor: int) -> None:
        tries.append(descriptor)
        raise OSError(5, "Input/output error")

    disk.append("f", b"kept")
    assert await synced(disk, "f") is None
    monkeypatch.setattr(os, "fdatasync", broken)
    disk.append("f", b"lost")
    first = await synced(disk, "f")
    assert first is not None
    assert first.errno == 5
    disk.write("g", b"never")
    assert await synced(disk, "f") is first
    assert await synced(disk, "", directory=True) is first
    assert not disk.exists("g")
    assert len(tries) == 1


@play(run, given="tmp_path")
async def test_an_error_of_a_queued_change_is_reported_by_the_next_sync(disk: FileDisk):
    disk.append("f", b"a")
    disk.rename("missing", "target")
    assert isinstance(await synced(disk, "f"), FileNotFoundError)


def test_a_folder_is_locked_until_it_is_closed(tmp_path):
    async def body(disk: FileDisk) -> None:
        with pytest.raises(DiskLockedError, match=f"folder {tmp_path} is in use"):
            FileDisk(tmp_path, asyncio.get_running_loop())

    run(body, tmp_path)
    run(lambda disk: synced(disk, "", directory=True), tmp_path)


def test_drain_applies_the_queue_and_syncs_every_append(tmp_path, syncs):
    async def main() -> None:
        disk = FileDisk(tmp_path, asyncio.get_running_loop())
        done: list[OSError | None] = []
        disk.append("f", b"a")
        disk.sync("f", done.append)
        disk.append("f", b"b")
        drained = asyncio.get_running_loop().create_future()
        disk.drain(drained.set_result)
        assert await drained is None
        assert done == [None]
        disk.close()
        with pytest.raises(RuntimeError, match="is closed"):
            disk.append("f", b"c")

    asyncio.run(main())
    assert (tmp_path / "f").read_bytes() == b"ab"
    assert len(syncs) == 2


def test_close_loses_what_was_not_synced_and_calls_no_completion(tmp_path, monkeypatch):
    busy, let_go = threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        busy.set()
        assert let_go.wait(300)

    monkeypatch.setattr(os, "fdatasync", slow)

    async def main() -> None:
        disk = FileDisk(tmp_path, asyncio.get_running_loop())
        done: list[OSError | None] = []
        disk.append("f", b"a")
        disk.sync("f", done.append)
        assert busy.wait(300)
        disk.append("f", b"b")
        disk.sync("f", done.append)
        disk.write("g", b"c")
        closing = asyncio.create_task(asyncio.to_thread(disk.close))
        while not disk._abandoned:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
        let_go.set()
        await closing
        await asyncio.sleep(0)
        assert done == []

    asyncio.run(main())
    assert (tmp_path / "f").read_bytes() == b"a"
    assert not (tmp_path / "g").exists()


CHILD = """
    import asyncio, sys
    from cluster.node.runtime.disk import FileDisk

    async def main():
        disk = FileDisk(sys.argv[1], asyncio.get_running_loop())
        def done(error):
            assert error is None
            print("durable", flush=True)
        disk.append("f", b"synced;")
        disk.append("new", b"never synced")
        disk.sync("f", done)
        disk.append("f", b"not synced;")
        disk.append("f", b"nor this")
        disk.write("g", b"whole files go to the kernel at once")
        disk.sync("g", done)
        await asyncio.sleep(60)

    asyncio.run(main())
"""


def test_kill_9_loses_exactly_the_appends_that_were_not_synced(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(tmp_path)], stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert [child.stdout.readline(), child.stdout.readline()] == [b"durable\n"] * 2
    finally:
        child.kill()
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
    assert (tmp_path / "f").read_bytes() == b"synced;"
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "g").read_bytes() == b"whole files go to the kernel at once"
    run(lambda disk: synced(disk, "f"), tmp_path)  # the lock died with its owner


async def passed(disk: FileDisk) -> OSError | None:
    future: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    disk.barrier(future.set_result)
    return await asyncio.wait_for(future, 300)


@play(run, given="tmp_path")
async def test_what_is_appended_at_once_reaches_the_file_without_a_sync(disk: FileDisk, *, syncs):
    disk.append("f", b"waited ", at_once=False)
    disk.append("f", b"came ", at_once=True)
    disk.append("f", b"waits")
    disk.append("g", b"waits")
    assert await passed(disk) is None
    assert disk.read("f") == b"waited came "
    assert not disk.exists("g")
    assert syncs == []
    assert await synced(disk, "f") is None
    assert disk.read("f") == b"waited came waits"
    disk.append("f", b"!", at_once=True)
    assert await synced(disk, "f") is None
    assert len(syncs) == 2, "bytes that came at once make the file unsynced again"


@play(run, given="tmp_path")
async def test_a_barrier_waits_for_the_queue_and_reports_its_first_error(disk: FileDisk):
    disk.append("missing-folder/f", b"x", at_once=True)
    assert isinstance(await passed(disk), FileNotFoundError)
    disk.append("f", b"x", at_once=True)
    assert await passed(disk) is not None, "a disk that failed stays failed"
    assert not disk.exists("f")


def test_kill_9_keeps_what_was_appended_at_once(tmp_path):
    script = textwrap.dedent(
        """
        import asyncio, os, signal, sys
        from cluster.node.runtime.disk import FileDisk

        async def main():
            disk = FileDisk(sys.argv[1], asyncio.get_running_loop())
            for number in range(1000):
                disk.append("kept", b"%04d" % number, at_once=True)
                disk.append("lost", b"%04d" % number)
            passed = asyncio.get_running_loop().create_future()
            disk.barrier(passed.set_result)
            await passed
            for number in range(1000, 5000):
                disk.append("kept", b"%04d" % number, at_once=True)
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(main())
        """
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    kept = (tmp_path / "kept").read_bytes()
    assert len(kept) >= 4000
    assert b"".join(b"%04d" % number for number in range(5000)).startswith(kept)
    assert not (tmp_path / "lost").exists()


@play(run, given="tmp_path")
async def test_what_is_written_again_is_what_was_there_and_is_synced(disk: FileDisk, *, syncs):
    content = bytes(range(256)) * 5000
    disk.append("f", content)
    assert await synced(disk, "f") is None
    disk.rewrite("f", 1000)
    assert await synced(disk, "f") is None
    disk.append("f", b" and more")
    disk.rewrite("f", 1000)
    assert await synced(disk, "f") is None
    assert (disk.read("f"), len(syncs)) == (content + b" and more", 3)


@play(run, given="tmp_path")
async def test_a_folder_is_renamed_and_removed_with_what_is_in_it(disk: FileDisk):
    disk.make_directory("old")
    disk.append("old/kept", b"kept", at_once=True)
    disk.append("old/waiting", b"waiting")
    disk.rename("old", "new")
    disk.make_directory("old")
    disk.append("old/kept", b"another", at_once=True)
    assert await synced(disk, "new/kept") is None
    assert (disk.read("new/kept"), disk.read("new/waiting")) == (b"kept", b"waiting")
    assert disk.read("old/kept") == b"another"
    disk.append("new/kept", b"lost")
    disk.remove_directory("new")
    disk.remove_directory("missing")
    assert await passed(disk) is None
    assert disk.list_directory("") == (".lock", "old")


class Held:
    """An fdatasync on the second thread that waits until it is let go, and may then fail."""

    def __init__(self, monkeypatch, error: OSError | None = None) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        self.error = error
        self.sizes: list[int] = []
        self._real = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self._sync)

    def _sync(self, descriptor: int) -> None:
        if threading.current_thread().name == "disk-aside":
            self.sizes.append(os.fstat(descriptor).st_size)
            self.begun.set()
            assert self.let_go.wait(300)
            if self.error is not None:
                raise self.error
        self._real(descriptor)


@play(run, given="tmp_path")
async def test_the_queue_goes_on_while_a_sync_aside_takes_its_time(disk: FileDisk, *, monkeypatch):
    held = Held(monkeypatch)
    done: list[object] = []
    disk.append("f", b"full", at_once=True)
    disk.sync("f", lambda error: done.append(("file", error)), aside=True)
    disk.sync_directory("", lambda error: done.append(("folder", error)), aside=True)
    disk.append("g", b"more", at_once=True)
    assert await passed(disk) is None
    assert await synced(disk, "g") is None
    assert await asyncio.to_thread(held.begun.wait, 300)
    disk.rename("f", "h")
    disk.remove("h")
    assert await passed(disk) is None
    assert (done, disk.read("g"), disk.exists("f")) == ([], b"more", False)
    held.let_go.set()
    drained = asyncio.get_running_loop().create_future()
    disk.drain(drained.set_result)
    assert await asyncio.wait_for(drained, 300) is None
    assert done == [("file", None), ("folder", None)]
    assert held.sizes == [4]


@play(run, given="tmp_path")
async def test_a_sync_aside_that_fails_is_the_last_thing_that_happens(
    disk: FileDisk, *, monkeypatch
):
    held = Held(monkeypatch, OSError(5, "Input/output error"))
    loop = asyncio.get_running_loop()
    done = [loop.create_future(), loop.create_future()]
    disk.append("f", b"full", at_once=True)
    for each in done:
        disk.sync("f", each.set_result, aside=True)
    assert await asyncio.to_thread(held.begun.wait, 300)
    held.let_go.set()
    assert await asyncio.wait_for(asyncio.gather(*done), 300) == [held.error] * 2
    disk.append("g", b"never", at_once=True)
    assert await passed(disk) is held.error
    assert await synced(disk, "f") is held.error
    assert not disk.exists("g")
    assert held.sizes == [4]


@play(run, given="tmp_path")
async def test_a_sync_aside_of_what_is_missing_is_an_error(disk: FileDisk):
    future: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    disk.sync("nothing", future.set_result, aside=True)
    error = await asyncio.wait_for(future, 300)
    assert isinstance(error, FileNotFoundError)
    assert await passed(disk) is error


@play(asyncio.run)
async def test_a_close_waits_for_the_sync_aside_that_is_under_way_and_calls_no_completion(
    *, tmp_path, monkeypatch
):
    held = Held(monkeypatch)
    disk = FileDisk(tmp_path, asyncio.get_running_loop())
    done: list[OSError | None] = []
    disk.append("f", b"full", at_once=True)
    disk.sync("f", done.append, aside=True)
    disk.sync("f", done.append, aside=True)
    assert await asyncio.to_thread(held.begun.wait, 300)
    closing = asyncio.create_task(asyncio.to_thread(disk.close))
    await asyncio.to_thread(disk._queue._thread.join)  # which ends once `close` has begun
    held.let_go.set()
    await asyncio.wait_for(closing, 300)
    await asyncio.sleep(0)
    assert done == []
    assert held.sizes == [4], "the second was dropped"
