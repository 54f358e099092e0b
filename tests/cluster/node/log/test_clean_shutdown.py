"""The file of a clean shutdown: what it says, and when it is there."""

import random

import pytest

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.log.data.directory_checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    NO_EPOCH,
    read_clean_shutdown,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from tests.cluster.node.log.log_helpers import KEEPS, crash_everywhere, fail


def stopped_in_order(epoch=5):
    steps = Scheduler()
    disk = MemoryDisk(steps.call_later)
    write_clean_shutdown(disk, epoch, lambda error: fail(error) if error else None)
    steps.run()
    return disk, steps


def test_the_file_is_kafkas():
    disk, _ = stopped_in_order(4711)
    assert disk.read(".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":4711}'


@pytest.mark.parametrize(
    ("content", "epoch"),
    [
        # As Kafka 4.3.1's CleanShutdownFileHandler reads them.
        (b'{"version":0,"brokerEpoch":5}', 5),
        (b'{"brokerEpoch":5}', 5),
        (b'{"version":9,"brokerEpoch":5,"x":1}', 5),
        (b"", NO_EPOCH),
        (b'{"version":0,"brokerEpoch":5', NO_EPOCH),
        (b"[]", NO_EPOCH),
        (b'{"version":0}', NO_EPOCH),
        # Whatever else a disk may give back.
        (b'{"brokerEpoch":null}', NO_EPOCH),
        (b'{"brokerEpoch":[5]}', NO_EPOCH),
        (b'{"brokerEpoch":"x"}', NO_EPOCH),
        (b"\xff\xfe", NO_EPOCH),
        (b"\x00" * 30, NO_EPOCH),
        (b"5", NO_EPOCH),
        (b'{"brokerEpoch":-7}', NO_EPOCH),
        (b'{"brokerEpoch":9223372036854775808}', NO_EPOCH),
        (b"[" * 100_000, NO_EPOCH),
    ],
)
def test_what_cannot_be_understood_is_no_clean_shutdown(content, epoch):
    disk, steps = stopped_in_order()
    disk.write(CLEAN_SHUTDOWN_FILE, content)
    steps.run()
    assert read_clean_shutdown(disk) == epoch


def test_a_file_that_a_killed_start_removed_does_not_come_back():
    disk, steps = stopped_in_order()
    disk.remove(CLEAN_SHUTDOWN_FILE)
    done = []
    remove_clean_shutdown(disk, done.append)
    assert done == []
    steps.run()
    assert done == [None]
    disk.power_off(random.Random(0), "nothing")
    disk.power_on()
    assert read_clean_shutdown(disk) is None


@KEEPS
def test_a_file_that_is_gone_does_not_come_back(keep):
    def attempt(operation, stop_on):
        disk, steps = stopped_in_order()
        stop_on(disk)
        gone = []
        remove_clean_shutdown(disk, gone.append)
        steps.run()
        disk.on_operation = None
        if not gone:
            return
        disk.power_off(random.Random(operation), keep)
        disk.power_on()
        assert read_clean_shutdown(disk) is None, f"operation {operation}"

    assert crash_everywhere(keep, attempt) > 2


@KEEPS
def test_the_file_is_there_once_it_is_reported_and_whole_or_not_before(keep):
    def attempt(operation, stop_on):
        steps = Scheduler()
        disk = MemoryDisk(steps.call_later)
        stop_on(disk)
        done = []
        write_clean_shutdown(disk, 5, done.append)
        steps.run()
        disk.on_operation = None
        disk.power_on()
        assert read_clean_shutdown(disk) in ((5,) if done else (5, NO_EPOCH, None)), operation

    assert crash_everywhere(keep, attempt) > 3
