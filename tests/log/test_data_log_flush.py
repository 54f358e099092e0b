"""flush.messages and flush.ms: when a log of data is synced although no segment is rolled."""

from __future__ import annotations

from random import Random

import pytest

from tests.log.data_helpers import Folder, batch, contents


def written(folder, log, *values):
    """Append a batch, and go on until a kill would keep it."""
    reached = []
    log.append_as_leader(batch(*values), 0)
    log.when_written(lambda: reached.append(log.end_offset))
    while not reached:
        folder.steps.step()


def left_after_a_power_loss(folder):
    folder.disk.crash(Random(1), "nothing")
    return len(contents(folder.open()))


@pytest.mark.parametrize(("flush_messages", "kept"), [(1, 3), (2, 2), (3, 3), (4, 0)], ids=str)
def test_what_is_written_is_durable_by_the_count_of_records(flush_messages, kept):
    folder = Folder(flush_messages=flush_messages)
    log = folder.open()
    folder.run()
    for value in (b"a", b"b", b"c"):
        written(folder, log, value)
    assert left_after_a_power_loss(folder) == kept


def test_what_is_written_is_durable_after_a_time():
    folder = Folder(flush_ms=1_000)
    log = folder.open()
    written(folder, log, b"a")
    folder.clock.advance(999)
    folder.run()
    assert log.recovery_point == 0
    folder.clock.advance(1)
    folder.run()
    assert log.recovery_point == 1
    written(folder, log, b"b")
    folder.clock.advance(1_000)
    folder.run()
    assert left_after_a_power_loss(folder) == 2


def test_a_log_that_was_deleted_meanwhile_is_not_synced():
    folder = Folder(flush_ms=1_000)
    log = folder.open()
    written(folder, log, b"a")
    folder.logs.delete(log.partition)
    folder.clock.advance(2_000)
    folder.run()
    assert folder.failures == []
