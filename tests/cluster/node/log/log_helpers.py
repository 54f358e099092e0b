"""Logs on a simulated disk whose steps a test takes, and power that fails at any of them."""

from random import Random

import pytest

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.log.batch.records import Record, encode_batch
from cluster.node.log.metadata.log import Log, LogConfig

DIRECTORY = "topic-0"


def fail(error: OSError) -> None:
    raise AssertionError(f"disk failed: {error}")


class Logs:
    """One simulated disk and the log on it, opened again and again."""

    def __init__(self, segment_bytes: int = 400, cache_bytes: int = 200) -> None:
        self.steps = Scheduler()
        self.disk = MemoryDisk(self.steps.call_later)
        self.config = LogConfig(segment_bytes=segment_bytes, cache_bytes=cache_bytes)
        self.failures: list[OSError] = []

    def open(self) -> Log:
        return Log.open(self.disk, DIRECTORY, self.config, self.failures.append)


def batch(offset: int, epoch: int = 0, records: int = 1, size: int = 10) -> bytes:
    values = [Record(bytes([offset % 251, epoch % 251]) * (size // 2)) for _ in range(records)]
    return encode_batch(offset, epoch, values, 1_000 + offset)


def flushed(logs: Logs, log: Log) -> None:
    called: list[int] = []
    log.flush(lambda: called.append(log.durable_end_offset))
    logs.steps.run()
    assert called == [log.end_offset]


class StopAt:
    """Cuts the power when the disk was asked for so many operations."""

    def __init__(self, disk, count, keep, seed):
        self.disk, self.left, self.keep, self.random = disk, count, keep, Random(seed)
        self.stopped = False

    def __call__(self):
        self.left -= 1
        if self.left < 0 and not self.stopped:
            self.stopped = True
            self.disk.power_off(self.random, self.keep)


KEEPS = pytest.mark.parametrize("keep", ["nothing", "any", "everything"])


def crash_everywhere(keep, attempt):
    """Call `attempt(operation, stop_on)` with a crash one operation later each time; count them.

    `stop_on(disk)` arms the crash and returns what says whether it came.
    """
    operation, stopped = 0, True
    while stopped:
        armed = []

        def stop_on(disk, operation=operation, armed=armed):
            disk.on_operation = StopAt(disk, operation, keep, operation)
            armed.append(disk.on_operation)

        attempt(operation, stop_on)
        (stop,) = armed
        stopped = stop.stopped
        operation += 1
        assert operation < 400, "it never ends"
    return operation


def restart(logs):
    logs.disk.on_operation = None
    logs.disk.power_on()
    return logs.open()
