"""flush.messages and flush.ms: when a log of data is synced although no segment is rolled."""

from random import Random

import pytest

from cluster.node.log.data.data_config import StorageError
from tests.cluster.node.log.data_helpers import Folder, batch, contents


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


def test_what_an_fsync_failed_to_keep_is_durable_once_the_next_process_has_flushed_it():
    folder = Folder()
    log = folder.open()
    written(folder, log, b"a")
    folder.flush(log)
    written(folder, log, b"b")
    folder.disk.fail(OSError(5, "broken"))
    log.flush(lambda: None)
    folder.run()
    folder.kill()
    folder.failures.clear()
    log = folder.open()
    assert log.end_offset == 2
    folder.flush(log)
    assert left_after_a_power_loss(folder) == 2


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


# --- the sync of a full segment, aside ---

SYNC_MS = 50.0


def rolling(**config):
    """A folder on a disk that takes its time, and a log whose next batch needs a new segment."""
    folder = Folder(segment_bytes=200, **config)
    log = folder.open()
    written(folder, log, b"x" * 100)
    folder.run()
    folder.disk.sync_ms = SYNC_MS
    return folder, log


def test_records_are_written_while_the_segment_before_is_synced():
    folder, log = rolling()
    began_ms = folder.steps.now_ms
    written(folder, log, b"y" * 100)
    assert log.segment_offsets == (0, 1)
    assert (folder.steps.now_ms, log.recovery_point) == (began_ms, 0)
    folder.run()
    assert log.recovery_point == 1
    folder.disk.crash(Random(1), "nothing")
    assert len(contents(folder.open())) == 1


def test_until_that_sync_is_over_a_power_loss_may_take_the_segment():
    folder, log = rolling()
    written(folder, log, b"y" * 100)
    folder.disk.crash(Random(1), "nothing")
    assert contents(folder.open()) == []


def test_a_flush_is_over_only_when_the_full_segment_before_is_durable():
    folder, log = rolling()
    folder.disk.stall()
    log.append_as_leader(batch(b"y" * 100), 0)
    done = []
    log.flush(lambda: done.append(log.recovery_point))
    folder.run()
    folder.disk.sync_ms = 0.0
    folder.disk.resume()
    while folder.steps.step():
        assert log.recovery_point in {0, 1, 2}
        if done:
            folder.disk.crash(Random(1), "nothing")
            break
    assert done == [2]
    assert len(contents(folder.open())) == 2


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_power_loss_takes_meanwhile_the_recovery_point_is_kept(seed):
    random = Random(seed)
    folder = Folder(segment_bytes=300, cache_bytes=100)
    log = folder.open()
    folder.run()
    folder.disk.sync_ms = 3.0
    flushed = [0]
    for number in range(random.randrange(5, 60)):
        log.append_as_leader(batch(b"%d" % number), 0)
        if random.random() < 0.1:
            log.flush(lambda: flushed.append(log.recovery_point))
        for _ in range(random.randrange(0, 4)):
            folder.steps.step()
    point, count = log.recovery_point, log.end_offset
    folder.disk.crash(random, "any")
    kept = [each for each, *_ in contents(folder.open())]
    assert max(flushed) <= point <= len(kept) <= count
    assert not folder.failures


def test_with_flush_messages_a_full_segment_is_synced_before_what_follows_is_written():
    folder, log = rolling(flush_messages=2)
    began_ms = folder.steps.now_ms
    written(folder, log, b"y" * 100)
    assert folder.steps.now_ms >= began_ms + SYNC_MS
    assert log.recovery_point == 1
    folder.disk.crash(Random(1), "nothing")
    assert len(contents(folder.open())) == 1


def test_a_full_segment_that_cannot_be_synced_takes_the_folder_offline():
    folder, log = rolling()
    log.append_as_leader(batch(b"y" * 100), 0)
    error = OSError(5, "Input/output error")
    folder.disk.fail(error)
    folder.run()
    assert (folder.failures, folder.logs.is_offline) == ([error], True)
    assert log.recovery_point == 0
    with pytest.raises(StorageError):
        log.append_as_leader(batch(b"z"), 0)


def test_a_folder_is_closed_only_when_the_full_segment_is_durable():
    folder, log = rolling()
    written(folder, log, b"y" * 100)
    folder.close()
    folder.disk.crash(Random(1), "nothing")
    assert len(contents(folder.open())) == 2
    assert folder.logs.previous_broker_epoch == 5


def test_a_truncation_below_the_full_segment_is_not_undone_by_its_sync():
    folder, log = rolling()
    written(folder, log, b"y" * 100)
    log.truncate_to(0)
    assert log.recovery_point == 0
    folder.run()
    assert (log.recovery_point, log.end_offset) == (0, 0)
    assert folder.failures == []
