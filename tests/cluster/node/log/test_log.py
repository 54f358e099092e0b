from random import Random

import pytest

from cluster.node.log.batch.records import CorruptBatchError, Record, encode_batch
from cluster.node.log.metadata.log import CorruptLogError, LogConfig
from tests.cluster.node.log.log_helpers import DIRECTORY, Logs, batch, flushed


def filled(logs: Logs, count: int = 10, epoch: int = 0):
    log = logs.open()
    for offset in range(count):
        log.append(batch(offset, epoch))
    return log


def test_a_read_stops_at_the_end_offset_given():
    log = filled(Logs())
    assert log.read(0, 10_000, end_offset=2) == batch(0) + batch(1)
    assert log.read(2, 10_000, end_offset=2) == b""


def test_a_batch_that_straddles_the_end_offset_is_not_read():
    logs = Logs()
    log = logs.open()
    log.append(batch(0, records=3))
    assert log.read(0, 10_000, end_offset=2) == b""
    flushed(logs, log)
    assert logs.open().read(0, 10_000, end_offset=2) == b""


def test_a_segment_rolls_before_it_grows_too_large():
    logs = Logs(segment_bytes=300)
    log = filled(logs, 9)
    flushed(logs, log)
    names = [name for name in logs.disk.list_directory(DIRECTORY) if name.endswith(".log")]
    assert names == [f"{offset:020d}.log" for offset in (0, 3, 6)]
    assert all(logs.disk.size(f"{DIRECTORY}/{name}") <= 300 for name in names)


def test_a_gap_is_refused_and_nothing_is_appended():
    log = filled(Logs(), 2)
    with pytest.raises(ValueError, match="offset 4, log ends at 3"):
        log.append(batch(2) + batch(4))
    assert log.end_offset == 2


def test_a_lower_epoch_is_refused():
    log = filled(Logs(), 2, epoch=3)
    with pytest.raises(ValueError, match="epoch 2 after 3"):
        log.append(batch(2, epoch=2))


def test_a_damaged_batch_is_refused_and_nothing_is_appended():
    log = filled(Logs(), 2)
    damaged = bytearray(batch(3))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        log.append(batch(2) + bytes(damaged))
    assert log.end_offset == 2


def test_flushes_during_a_sync_share_the_next_one():
    logs = Logs(segment_bytes=1 << 20)
    log = filled(logs, 1)
    flushed(logs, log)
    syncs = logs.disk.syncs
    order: list[str] = []
    log.append(batch(1))
    log.flush(lambda: order.append("first"))
    for offset in range(2, 50):
        log.append(batch(offset))
        log.flush(lambda offset=offset: order.append(f"{offset}@{log.durable_end_offset}"))
    logs.steps.run()
    assert order == ["first"] + [f"{offset}@50" for offset in range(2, 50)]
    assert logs.disk.syncs - syncs == 2


def test_a_truncation_within_a_batch_drops_the_whole_batch():
    logs = Logs()
    log = logs.open()
    log.append(batch(0) + batch(1, records=5))
    log.truncate_to(3)
    assert log.end_offset == 1
    log.append(batch(1))
    flushed(logs, log)
    assert logs.open().end_offset == 2


def test_a_disk_error_is_reported_once_and_nothing_is_reported_durable():
    logs = Logs()
    log = filled(logs, 2)
    flushed(logs, log)
    error = OSError(5, "Input/output error")
    logs.disk.fail(error)
    log.append(batch(2))
    log.flush(lambda: pytest.fail("called back after an error"))
    log.flush(lambda: pytest.fail("called back after an error"))
    logs.steps.run()
    log.flush(lambda: pytest.fail("called back after an error"))
    logs.steps.run()
    assert logs.failures == [error]
    assert log.durable_end_offset == 2


def test_a_file_that_rots_under_a_running_node_is_noticed_by_the_read():
    logs = Logs(segment_bytes=1 << 20, cache_bytes=0)
    log = filled(logs, 5)
    flushed(logs, log)
    size = len(batch(0))
    logs.disk.corrupt(f"{DIRECTORY}/{0:020d}.log", size * 2 + 30, 1)
    assert log.read(0, size) == batch(0)
    with pytest.raises(CorruptLogError, match="changed since"):
        log.read(2, size)


def test_memory_holds_no_more_than_the_bound_once_durable():
    logs = Logs(cache_bytes=250)
    log = filled(logs, 50)
    assert log._tail.start_offset == 0
    flushed(logs, log)
    assert 47 <= log._tail.start_offset < 50


def reopened(logs, keep):
    logs.disk.crash(Random(0), keep)
    logs.failures.clear()
    return logs.open()


def test_a_segment_that_outlived_a_kill_gets_a_durable_name():
    logs = Logs(segment_bytes=200)
    log = filled(logs, 2)
    flushed(logs, log)
    log.append(batch(2) + batch(3))
    logs.steps.step()  # the full segment is synced, and its successor is there
    log = reopened(logs, "everything")
    assert log.end_offset > 2
    flushed(logs, log)
    end_offset = log.end_offset
    assert reopened(logs, "nothing").end_offset == end_offset


def test_what_an_fsync_failed_to_keep_is_durable_only_once_it_is_written_again():
    logs = Logs()
    log = filled(logs, 2)
    flushed(logs, log)
    log.append(batch(2))
    logs.disk.fail(OSError(5, "Input/output error"))
    log.flush(lambda: None)
    logs.steps.run()
    assert logs.failures
    log = reopened(logs, "written")
    assert (log.end_offset, log.durable_end_offset) == (3, 2)
    flushed(logs, log)
    assert reopened(logs, "nothing").end_offset == 3


def dated(offset, timestamp_ms):
    return encode_batch(offset, 0, [Record(b"x" * 10)], timestamp_ms)


def bases(log):
    return [segment.base_offset for segment in log._segments]


def test_a_batch_that_is_much_younger_than_its_segment_begins_the_next_one():
    logs = Logs(segment_bytes=1 << 20)
    logs.config = LogConfig(segment_bytes=1 << 20, segment_ms=1_000)
    log = logs.open()
    for offset, timestamp_ms in enumerate([5_000, 6_000, 6_001, 5_500, 7_002]):
        log.append(dated(offset, timestamp_ms))
    assert bases(log) == [0, 2, 4]
    flushed(logs, log)
    again = logs.open()
    again.append(dated(5, 8_002))
    again.append(dated(6, 8_003))
    assert bases(again) == [0, 2, 4, 6], "the age of a segment outlives a restart"


def test_the_age_of_a_segment_is_that_of_its_first_batch_after_a_truncation_too():
    logs = Logs(segment_bytes=1 << 20)
    logs.config = LogConfig(segment_bytes=1 << 20, segment_ms=1_000)
    log = logs.open()
    log.append(dated(0, 1_000))
    log.truncate_to(0)
    log.append(dated(0, 9_000))
    log.append(dated(1, 9_500))
    assert bases(log) == [0]
