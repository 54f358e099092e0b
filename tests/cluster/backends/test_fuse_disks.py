"""A torn write waits until a write can be torn; and what a busy machine leaves is unmounted."""

import asyncio
from pathlib import PurePath
from types import SimpleNamespace

from fake_system import FakeSystem

from cluster.backends.base import BackendError
from cluster.backends.machine import disks
from cluster.backends.machine.disks import FuseDisks
from cluster.backends.machine.faultfs.faults import HOLD, Faults

HERE = SimpleNamespace(folder=PurePath())


class Scripted(FuseDisks):
    """A disk whose filesystem says of writes, one after the other, how they can be lost."""

    def __init__(self, *statuses):
        backend = SimpleNamespace(system=FakeSystem(), run_id="run", kill=self.kill)
        super().__init__(backend, {"n1": HERE})
        self.statuses, self.done = list(statuses), []

    async def kill(self, node):
        self.done.append("kill")

    async def _request(self, node, request):
        match request:
            case {"verb": "status", "torn": torn}:
                dirty, tearable = self.statuses.pop(0)
                self.done.append("status")
                return {"dirty_bytes": dirty, "tearable": torn and tearable}
            case {"verb": "power-loss", "torn": torn}:
                self.done.append("torn" if torn else "lost")
                return {"bytes": 4, "files": 1, "torn": "log" * torn}
            case {"verb": "set", "fault": "hold", "parameters": {"torn": torn}}:
                self.done.append("hold torn" if torn else "hold")
            case {"verb": "clear", "fault": "hold"}:
                self.done.append("clear")
        return {}


def lose(monkeypatch, disk, *, torn):
    async def run_program(host, program, *arguments):
        return "kept"

    monkeypatch.setattr(disks, "run_program", run_program)
    asyncio.run(disk.power_loss("n1", torn=torn))
    return disk.done


def test_a_torn_write_waits_for_one_that_can_be_torn(monkeypatch):
    disk = Scripted((4, False), (104, False), (104, True))
    assert lose(monkeypatch, disk, torn=True) == [
        *("hold torn", "status", "status", "status", "kill", "torn", "clear")
    ]


def test_any_write_is_held_that_is_only_to_be_lost(monkeypatch):
    disk = Scripted((4, False), (104, False))
    assert lose(monkeypatch, disk, torn=False) == [
        *("hold", "status", "status", "kill", "lost", "clear")
    ]


def test_a_sync_waits_only_while_a_write_can_be_torn():
    asked = iter([True, True, False])
    faults = Faults(lambda: next(asked))
    faults.set(HOLD, {"torn": True})
    faults.pass_gate("fsync", 0, own=False)
    assert list(asked) == []
    assert faults.hits() == {HOLD: 1}


def test_a_filesystem_that_does_not_answer_in_time_is_unmounted(monkeypatch):
    ours, other = (SimpleNamespace(run_id=run_id) for run_id in ("run", "another"))
    unmounted = []
    monkeypatch.setattr(disks, "mounts", lambda: [ours, other])
    monkeypatch.setattr(disks, "unmount", unmounted.append)

    class Busy(Scripted):
        async def _unmount(self, host, folder):
            raise BackendError("not within 10 s")

    disk = Busy()
    disk._mounted.add("n1")
    asyncio.run(disk.release())
    assert unmounted == [ours]
