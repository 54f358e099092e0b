"""Logs that begin above 0: deletion below a snapshot, and starting anew at one.

The crash tests stop the disk at each operation of the change, lose the power, and open the log
again: what is found must be a log without a hole that lacks nothing but what a snapshot holds.
"""

import pytest

from cluster.node.log.batch.records import parse_header
from cluster.node.log.metadata.log import CorruptLogError, Log
from tests.cluster.node.log.log_helpers import (
    DIRECTORY,
    KEEPS,
    Logs,
    batch,
    crash_everywhere,
    flushed,
    restart,
)


def filled(logs, epochs):
    log = logs.open()
    for offset, epoch in enumerate(epochs):
        log.append(batch(offset, epoch))
    flushed(logs, log)
    return log


def offsets(log: Log) -> list[int]:
    found, offset = [], log.start_offset
    while offset < log.end_offset:
        header = parse_header(log.read(offset, 1))
        found.append(header.base_offset)
        offset = header.next_offset
    return found


def segments(logs):
    return [int(n[:20]) for n in logs.disk.list_directory(DIRECTORY) if n.endswith(".log")]


EPOCHS = (1, 1, 1, 2, 2, 4, 4, 4, 4, 5)


def test_deletion_removes_the_segments_that_lie_wholly_below():
    logs = Logs(segment_bytes=300)
    log = filled(logs, EPOCHS)
    assert segments(logs) == [0, 3, 6, 9]
    log.delete_before(7)
    logs.steps.run()
    assert (log.start_offset, segments(logs)) == (7, [6, 9])
    assert offsets(log) == [7, 8, 9]
    with pytest.raises(ValueError, match="below the log start"):
        log.read(6, 1)


@pytest.mark.parametrize("offset", [-1, 11])
def test_deletion_outside_of_the_log_is_refused(offset):
    log = filled(Logs(), EPOCHS)
    with pytest.raises(ValueError, match="not in the log"):
        log.delete_before(offset)


@KEEPS
@pytest.mark.parametrize("start", range(3, 11))
def test_power_may_fail_at_every_operation_of_a_deletion(start, keep):
    def attempt(operation, stop_on):
        logs = Logs(segment_bytes=300)
        log = filled(logs, EPOCHS)
        stop_on(logs.disk)
        log.delete_before(start)
        log.append(batch(10, 5))
        log.flush(lambda: None)
        logs.steps.run()
        found = restart(logs)
        assert found.start_offset <= start, f"operation {operation}"
        assert found.end_offset >= 10
        assert offsets(found) == list(range(found.start_offset, found.end_offset))
        again = Log.open(logs.disk, DIRECTORY, logs.config, logs.failures.append)
        again.delete_before(max(start, again.start_offset))
        flushed(logs, again)
        assert logs.open().end_offset == again.end_offset

    assert crash_everywhere(keep, attempt) > 5


@KEEPS
@pytest.mark.parametrize("start", [4, 10, 30])
def test_power_may_fail_at_every_operation_of_a_new_start(start, keep):
    def attempt(operation, stop_on):
        logs = Logs(segment_bytes=300)
        log = filled(logs, EPOCHS)
        stop_on(logs.disk)
        log.truncate_fully_and_start_at(start)
        log.append(batch(start, 8))
        log.flush(lambda: None)
        logs.steps.run()
        found = restart(logs)
        held = offsets(found)
        if found.start_offset == 0:
            assert held == list(range(found.end_offset)), "a prefix of the old log"
            assert found.end_offset <= 10
        else:
            assert found.start_offset == start, f"operation {operation}"
            assert held in ([], [start])
        found.truncate_fully_and_start_at(start)  # what the owner does with its snapshot
        found.append(batch(start, 8))
        flushed(logs, found)
        assert offsets(logs.open()) == [start]

    assert crash_everywhere(keep, attempt) > 5


def test_an_epoch_file_that_forgot_more_than_whole_segments_is_refused():
    logs = Logs(segment_bytes=300)
    filled(logs, EPOCHS)
    logs.disk.write(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n2\n4 5\n5 9\n")
    with pytest.raises(CorruptLogError):
        logs.open()
