"""A crash at every operation that a node asks of its disk, one after the other, then a restart.

Here: appends with their flushes, segment rolls, epoch cache and recovery point; truncation and what
is appended after it; the vote; the identity. Snapshots, their download and their deletion are in
tests/cluster/node/kraft/test_snapshots.py, deletion below a snapshot and a new start in test_log_start.py.
docs/node.md has the table.
"""

import random
import uuid

import pytest

from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.scheduler import Scheduler
from cluster.node.kraft.quorum.quorum_state_store import QuorumStateStore
from cluster.node.meta_properties import identify
from tests.cluster.node.log.log_helpers import (
    DIRECTORY,
    KEEPS,
    Logs,
    batch,
    crash_everywhere,
    fail,
    restart,
)
from tests.cluster.node.log.test_log_start import EPOCHS, filled, offsets


@KEEPS
@pytest.mark.parametrize("segment_bytes", [150, 300, 1 << 20])
def test_what_was_durable_is_there_after_a_crash_at_any_operation_of_appends(keep, segment_bytes):
    def attempt(operation, stop_on):
        logs = Logs(segment_bytes=segment_bytes)
        stop_on(logs.disk)
        log = logs.open()
        durable = 0

        def flushed():
            nonlocal durable
            durable = max(durable, log.durable_end_offset)

        for offset, epoch in enumerate(EPOCHS):
            log.append(batch(offset, epoch))
            log.flush(flushed)
            if offset % 3 == 2:
                logs.steps.run()
        logs.steps.run()
        found = restart(logs)
        assert found.end_offset >= durable, f"operation {operation}"
        assert offsets(found) == list(range(found.end_offset))
        for offset in range(found.end_offset):
            assert found.read(offset, 1) == batch(offset, EPOCHS[offset])
        for offset in range(found.end_offset, len(EPOCHS)):
            found.append(batch(offset, EPOCHS[offset]))
        assert found.end_offset_for_epoch(2).offset == 5

    assert crash_everywhere(keep, attempt) > 15


@KEEPS
@pytest.mark.parametrize("cut", range(1, 10))
def test_a_truncation_loses_nothing_below_it_whenever_it_is_cut_short(keep, cut):
    """Whether the old suffix is back or the new one is there, it is one of them and no mixture."""

    def attempt(operation, stop_on):
        logs = Logs(segment_bytes=300)
        log = filled(logs, EPOCHS)
        stop_on(logs.disk)
        log.truncate_to(cut)
        log.append(batch(cut, 9))
        acknowledged = []
        log.flush(lambda: acknowledged.append(log.durable_end_offset))
        logs.steps.run()
        found = restart(logs)
        assert found.end_offset >= cut, f"operation {operation}"
        assert offsets(found) == list(range(found.end_offset))
        for offset in range(cut):
            assert found.read(offset, 1) == batch(offset, EPOCHS[offset])
        replaced = found.end_offset > cut and found.read(cut, 1) == batch(cut, 9)
        assert replaced or not acknowledged
        for offset in range(cut, found.end_offset):
            expected = batch(cut, 9) if replaced else batch(offset, EPOCHS[offset])
            assert found.read(offset, 1) == expected
        assert found.end_offset == cut + 1 or not replaced
        assert found.end_offset_for_epoch(9).epoch == (
            9 if replaced else EPOCHS[found.end_offset - 1]
        )

    assert crash_everywhere(keep, attempt) > 5


@KEEPS
def test_a_vote_that_was_answered_is_there_after_a_crash_at_any_operation(keep):
    votes = [f'{{"vote":{number}}}'.encode() for number in range(3)]

    def attempt(operation, stop_on):
        steps = Scheduler()
        disk = MemoryDisk(steps.call_later)
        disk.make_directory(DIRECTORY)
        disk.sync_directory("", lambda error: None)
        steps.run()
        stop_on(disk)
        store = QuorumStateStore(disk, DIRECTORY, fail)
        answered = []
        for vote in votes:
            store.write(vote, lambda vote=vote: answered.append(vote))
            steps.run()
        disk.on_operation = None
        disk.power_on()
        path = f"{DIRECTORY}/quorum-state"
        found = disk.read(path) if disk.exists(path) else None
        if answered:
            assert found in votes[votes.index(answered[-1]) :], f"operation {operation}"
        else:
            assert found in (None, votes[0])

    assert crash_everywhere(keep, attempt) > 6


@KEEPS
def test_an_identity_that_was_used_is_there_after_a_crash_at_any_operation(keep):
    def attempt(operation, stop_on):
        steps = Scheduler()
        disk = MemoryDisk(steps.call_later)
        stop_on(disk)
        used = []
        identify({"": disk}, "c", 1, random.Random(operation), used.append)
        steps.run()
        disk.on_operation = None
        disk.power_on()
        found = []
        identify({"": disk}, "c", 1, random.Random("another"), found.append)
        steps.run()
        assert isinstance(found[0][""], uuid.UUID)
        if used:
            assert used == found, f"operation {operation}"

    assert crash_everywhere(keep, attempt) > 2
