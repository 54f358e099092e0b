"""What a leader takes, what a follower takes, what is found by time, and what is deleted when."""

from contextlib import suppress
from random import Random

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import (
    COMPRESSION_MASK,
    Record,
    decode_batch,
    encode_batch,
    parse_header,
)
from cluster.node.log.data.data_config import (
    AppendError,
    OffsetOutOfRangeError,
    StorageError,
    UnexpectedAppendOffsetError,
)
from cluster.node.log.data.data_log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from harness.sim.requests.batches import batches, reseal, topic
from tests.cluster.node.log.data_helpers import AT, NOW_MS, TOPIC_ID, Folder, batch, contents


def refused(log, sent: bytes) -> AppendError:
    end = log.end_offset
    with pytest.raises(AppendError) as caught:
        log.append_as_leader(sent, 0)
    assert log.end_offset == end
    return caught.value


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_batches_are_passed_on_as_they_are(codec):
    log = Folder().open()
    sent = batch(*[b"value" * 50] * 4, codec=codec, step_ms=5)
    log.append_as_leader(sent, 0)
    assert log.read(0, 1)[16:] == sent[16:]
    assert parse_header(sent).attributes & COMPRESSION_MASK == codec
    found = log.offset_for_timestamp(NOW_MS + 6)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (2, NOW_MS + 10)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_records_that_cannot_be_inflated_are_refused(codec):
    log = Folder().open()
    sent = batch(*[b"value" * 50] * 4, codec=codec)
    for position in (61, 70, len(sent) - 3):
        damaged = reseal(sent, position, bytes([sent[position] ^ 0x55]))
        if position == 61:  # what an inflater must notice; other bytes may still be plausible
            assert refused(log, damaged).error == ErrorCode.invalid_record
            continue
        with suppress(AppendError):
            log.append_as_leader(damaged, 0)
            assert decode_batch(log.read(log.end_offset - 1, 1)), "what is taken can be read"


@pytest.mark.slow
@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_batch_that_inflates_without_end_is_refused(codec):
    log = Folder(max_message_bytes=10 << 20).open()
    sent = batch(bytes(80 << 20), codec=codec)
    assert len(sent) < 1 << 20
    assert refused(log, sent).error == ErrorCode.message_too_large


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_batch_that_inflates_much_is_taken(codec):
    log = Folder(max_message_bytes=10 << 20).open()
    sent = batch(bytes(3 << 20), codec=codec)
    log.append_as_leader(sent, 0)
    (record,) = decode_batch(log.read(0, 1))
    assert record.value == bytes(3 << 20)


def test_a_batch_of_too_many_records_is_refused_before_they_are_looked_at():
    log = Folder().open()
    announced = reseal(batch(b"a"), 57, (1_000_001).to_bytes(4, "big"))
    announced = reseal(announced, 23, (1_000_000).to_bytes(4, "big"))
    assert refused(log, announced).error == ErrorCode.message_too_large


@pytest.mark.parametrize("seed", range(30))
def test_what_is_wrong_has_kafkas_error(seed):
    random = Random(seed)
    settings = topic(random)
    for what, sent, error in batches(Folder(**settings).config, NOW_MS, random):
        log = Folder(**settings).open()
        if error == "none":
            assert log.append_as_leader(sent, 0).first_offset == 0
        else:
            assert refused(log, sent).error.name == error, what


def test_a_batch_fits_into_a_segment():
    log = Folder(segment_bytes=300).open()
    assert refused(log, batch(b"x" * 300)).error == ErrorCode.record_list_too_large


def test_each_timestamp_must_lie_within_the_topics_bounds():
    log = Folder(message_timestamp_after_max_ms=50).open()
    second_is_late = batch(b"a", b"b", timestamp_ms=NOW_MS + 50, step_ms=1)
    assert refused(log, second_is_late).error is ErrorCode.invalid_timestamp


def test_append_time_replaces_the_clients_and_its_crc_is_right():
    folder = Folder(message_timestamp_type="LogAppendTime")
    log = folder.open()
    folder.clock.advance(1234)
    info = log.append_as_leader(batch(b"a", b"b", timestamp_ms=5), 0)
    assert info.log_append_time_ms == NOW_MS + 1234
    assert [r.timestamp for r in decode_batch(log.read(0, 1))] == [NOW_MS + 1234] * 2
    folder.close()
    folder.kill()
    assert folder.open().end_offset == 2, "recovery checks the CRC"


# Idempotent producers.


def test_sequences_must_follow_and_retries_get_the_old_offsets():
    log = Folder().open()
    for number in range(7):
        info = log.append_as_leader(batch(b"a", b"b", producer=(8, 0, 2 * number)), 0)
        assert info.first_offset == 2 * number
    for number in range(2, 7):
        again = log.append_as_leader(batch(b"a", b"b", producer=(8, 0, 2 * number)), 0)
        assert (again.is_duplicate, again.first_offset, again.last_offset) == (
            True,
            2 * number,
            2 * number + 1,
        )
    for sequence in (2, 13, 15):  # forgotten, within the last one, beyond
        error = refused(log, batch(b"a", b"b", producer=(8, 0, sequence)))
        assert error.error == ErrorCode.out_of_order_sequence_number
    assert log.end_offset == 14


def test_epochs_begin_at_sequence_0_and_never_go_back():
    log = Folder().open()
    log.append_as_leader(batch(b"a", producer=(8, 3, 77)), 0)  # an unknown producer begins anywhere
    assert refused(log, batch(b"a", producer=(8, 2, 78))).error == ErrorCode.invalid_producer_epoch
    error = refused(log, batch(b"a", producer=(8, 4, 78)))
    assert error.error == ErrorCode.out_of_order_sequence_number
    log.append_as_leader(batch(b"a", producer=(8, 4, 0)), 0)
    assert refused(log, batch(b"a", producer=(8, 3, 77))).error == ErrorCode.invalid_producer_epoch


def test_sequences_wrap_to_0():
    log = Folder().open()
    log.append_as_leader(batch(b"a", b"b", b"c", producer=(8, 0, 2**31 - 2)), 0)
    assert log.producers.producers[8].last_sequence == 0
    assert log.append_as_leader(batch(b"a", b"b", b"c", producer=(8, 0, 2**31 - 2)), 0).is_duplicate
    assert log.append_as_leader(batch(b"a", producer=(8, 0, 1)), 0).first_offset == 3
    other = Folder().open()
    other.append_as_leader(batch(b"a", producer=(8, 0, 2**31 - 1)), 0)
    other.append_as_leader(batch(b"a", producer=(8, 0, 0)), 0)


def test_producers_are_forgotten_when_they_are_idle_too_long():
    folder = Folder(producer_id_expiration_ms=1000)
    log = folder.open()
    log.append_as_leader(batch(b"a", producer=(8, 0, 0)), 0)
    folder.clock.advance(999)
    log.expire_producers()
    assert 8 in log.producers.producers
    folder.clock.advance(1)
    log.expire_producers()
    assert 8 not in log.producers.producers
    assert log.append_as_leader(batch(b"a", producer=(8, 0, 55)), 0).first_offset == 1


# Followers.


def test_a_follower_takes_what_follows_and_nothing_else():
    folder, leader = Folder(), Folder().open()
    log = folder.open()
    for number in range(6):
        leader.append_as_leader(batch(b"a", producer=(8, 0, number)), number // 2)
    sent = contents(leader)
    assert log.append_as_follower(b"") is None
    info = log.append_as_follower(b"".join(sent) + sent[0][:40], leader_epoch=1)
    assert info is not None
    assert (info.first_offset, info.last_offset) == (0, 3), "later epochs than asked for are left"
    with pytest.raises(UnexpectedAppendOffsetError) as caught:
        log.append_as_follower(sent[3])
    assert (caught.value.first_offset, caught.value.last_offset) == (3, 3)
    with pytest.raises(UnexpectedAppendOffsetError):
        log.append_as_follower(sent[5])
    damaged = sent[5][:-1] + bytes([sent[5][-1] ^ 1])
    with pytest.raises(AppendError) as refusal:
        log.append_as_follower(sent[4] + damaged)
    assert refusal.value.error == ErrorCode.corrupt_message
    assert log.end_offset == 4, "all or nothing"
    log.append_as_follower(sent[4] + sent[5])
    assert contents(log) == sent
    assert log.epochs.entries == leader.epochs.entries
    assert log.producers.producers == leader.producers.producers


def test_a_compacted_leaders_gaps_are_read_over():
    folder = Folder(
        cleanup_policy=("compact",), segment_bytes=400, cache_bytes=0, index_interval_bytes=1
    )
    log = folder.open()
    values = [Record(b"v" * 20, b"k")]
    sent = {
        offset: encode_batch(offset, 0, values, NOW_MS) for offset in (0, 5, 6, 20, 21, 40, 60, 61)
    }
    for each in sent.values():
        log.append_as_follower(each)
    for _ in range(2):
        for offset in range(62):
            expected = min(base for base in sent if base >= offset)
            assert log.read(offset, 1) == sent[expected], offset
        folder.run()
    folder.kill()
    log = folder.open()
    assert (log.end_offset, contents(log)) == (62, list(sent.values()))
    log.truncate_to(30)
    assert log.end_offset == 30, "as in Kafka, with nothing at its end"
    assert contents(log) == [sent[offset] for offset in (0, 5, 6, 20, 21)]


# Reading and finding.


def test_reads_end_at_the_bounds_that_are_asked_for():
    log = Folder().open()
    for _ in range(4):
        log.append_as_leader(batch(b"a", b"b"), 0)
    size = len(log.read(0, 1))
    assert len(log.read(0, 3 * size)) == 3 * size
    assert len(log.read(1, 3 * size, end_offset=5)) == 2 * size
    assert log.read(0, size - 1, min_one=False) == b""
    assert log.read(8, 1) == b""
    for offset in (-1, 9):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, 1)


def test_offsets_are_found_by_time_whether_the_segment_was_read_or_not():
    folder = Folder(segment_bytes=700, index_interval_bytes=100, cache_bytes=0)
    log = folder.open()
    times = [5, 3, 9, 9, 2, 14, 20, 1, 20, 33, 30, 31, 32, 40, 0, 41]
    for number, ms in enumerate(times):
        log.append_as_leader(batch(b"x" * 30, timestamp_ms=NOW_MS + ms), number // 5)
        folder.run()

    def check() -> None:
        for wanted in range(45):
            expected = next(
                (i for i, ms in enumerate(times) if ms >= wanted and i >= log.start_offset), None
            )
            found = log.offset_for_timestamp(NOW_MS + wanted)
            assert (found and found.offset) == expected, wanted
            if found:
                assert (found.timestamp_ms, found.epoch) == (
                    NOW_MS + times[found.offset],
                    found.offset // 5,
                )
        largest = log.offset_for_timestamp(MAX_TIMESTAMP)
        assert largest is not None
        assert (largest.offset, largest.timestamp_ms) == (15, NOW_MS + 41)
        first, last = (log.offset_for_timestamp(t) for t in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP))
        assert first is not None
        assert last is not None
        assert (first.offset, last.offset, first.timestamp_ms) == (log.start_offset, 16, -1)

    assert len(log.segment_offsets) > 2
    check()
    folder.close()
    log = folder.open()
    check()
    folder.kill()
    log = folder.open()
    check()
    log.high_watermark = 16
    log.increment_log_start_offset(4)
    check()
    assert Folder().open().offset_for_timestamp(MAX_TIMESTAMP) is None


# Segments, retention, partitions.


def test_segments_roll_by_size_time_and_full_index():
    for config, expected in (
        ({"segment_bytes": 300}, (0, 3, 6, 9)),
        ({"segment_ms": 25}, (0, 3, 6, 9)),
        ({"segment_index_bytes": 24, "index_interval_bytes": 1}, (0, 2, 4, 6, 8)),
    ):
        log = Folder(**config).open()
        for number in range(10):
            log.append_as_leader(batch(b"x" * 20, timestamp_ms=NOW_MS + 10 * number), 0)
        assert log.segment_offsets == expected, config


def test_an_offset_too_far_for_an_index_begins_a_segment():
    log = Folder(cleanup_policy=("compact",)).open()
    values = [Record(b"v", b"k")]
    for offset in (0, 2**31 - 1, 2**31):
        log.append_as_follower(encode_batch(offset, 0, values, NOW_MS))
    assert log.segment_offsets == (0, 2**31)


def test_old_segments_are_renamed_and_removed_after_a_delay():
    folder = Folder(segment_bytes=300, retention_bytes=500, file_delete_delay_ms=1000)
    log = folder.open()
    for _ in range(10):
        log.append_as_leader(batch(b"x" * 20, producer=(-1, -1, -1)), 0)
    folder.run()
    assert log.delete_old_segments() == 0, "nothing above the high watermark"
    log.high_watermark = 7
    assert log.delete_old_segments() == 1
    assert (log.start_offset, log.segment_offsets) == (3, (3, 6, 9))
    log.high_watermark = 10
    assert log.delete_old_segments() == 0
    folder.run()
    deleted = [name for name in folder.disk.files() if name.endswith(".deleted")]
    assert len(deleted) == 3
    folder.clock.advance(1000)
    folder.run()
    assert not [name for name in folder.disk.files() if name.endswith(".deleted")]
    folder.kill()
    assert folder.open().start_offset == 3


def test_old_segments_go_by_themselves_at_every_check():
    folder = Folder(segment_bytes=300, retention_bytes=500)
    folder.retention_check_interval_ms = 5_000.0  # as often as high watermarks are written
    log = folder.open()
    for _ in range(10):
        log.append_as_leader(batch(b"x" * 20, producer=(-1, -1, -1)), 0)
    log.high_watermark = 10
    folder.clock.advance(4_999)
    assert log.start_offset == 0
    folder.clock.advance(1)
    assert log.start_offset == 3
    folder.run()
    assert "replication-offset-checkpoint" in folder.disk.files()


def test_segments_are_deleted_by_age_and_the_last_one_after_a_roll():
    folder = Folder(segment_bytes=300, retention_ms=100)
    log = folder.open()
    for number in range(10):
        log.append_as_leader(batch(b"x" * 20, timestamp_ms=NOW_MS + 10 * number), 0)
    log.high_watermark = 10
    folder.clock.advance(121)
    assert log.delete_old_segments() == 1
    folder.run()
    folder.close()
    log = folder.open()
    log.high_watermark = 10
    folder.clock.advance(1000)
    assert log.delete_old_segments() == 3
    assert (log.start_offset, log.end_offset, log.segment_offsets) == (10, 10, (10,))
    assert log.append_as_leader(batch(b"x"), 0).first_offset == 10


def test_records_are_deleted_up_to_the_high_watermark():
    log = Folder().open()
    for _ in range(4):
        log.append_as_leader(batch(b"a"), 0)
    log.high_watermark = 3
    with pytest.raises(OffsetOutOfRangeError):
        log.increment_log_start_offset(4)
    assert log.increment_log_start_offset(3)
    assert not log.increment_log_start_offset(2)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(2, 1)


def test_epochs_end_as_kafka_says():
    log = Folder().open()
    assert log.end_offset_for_epoch(0) is None
    for epoch in (2, 2, 5):
        log.append_as_leader(batch(b"a"), epoch)
    found = {epoch: log.end_offset_for_epoch(epoch) for epoch in range(7)}
    assert {e: (f.epoch, f.offset) for e, f in found.items() if f is not None} == {
        0: (0, 0),
        1: (1, 0),
        2: (2, 2),
        3: (2, 2),
        4: (2, 2),
        5: (5, 3),
    }
    log.initialize_leader_epoch(9)
    assert log.epochs.latest_epoch == 9
    with pytest.raises(ValueError, match="epoch 8 cannot begin"):
        log.initialize_leader_epoch(8)


def test_high_watermarks_and_topic_ids_survive():
    folder = Folder()
    log = folder.open()
    for _ in range(4):
        log.append_as_leader(batch(b"a"), 0)
    log.high_watermark = 3
    folder.clock.advance(5000)
    folder.run()
    folder.kill()
    log = folder.open()
    assert log.high_watermark == 3
    assert folder.logs.topic_ids == {AT: TOPIC_ID}
    assert (
        folder.disk.read("topic-0/partition.metadata")
        == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw"
    )
    assert folder.disk.read("replication-offset-checkpoint") == b"0\n1\ntopic 0 3\n"


def test_a_deleted_partition_is_out_of_use_and_its_name_free():
    folder = Folder(file_delete_delay_ms=1000)
    log = folder.open()
    log.append_as_leader(batch(b"old"), 0)
    log.high_watermark = 1
    folder.flush(log)
    folder.logs.delete(AT)
    with pytest.raises(StorageError):
        log.read(0, 1)
    fresh = folder.logs.create(AT, TOPIC_ID)
    fresh.append_as_leader(batch(b"new"), 4)
    folder.run()
    assert [name for name in folder.disk.list_directory("") if name.endswith("-delete")]
    folder.clock.advance(1000)
    folder.run()
    assert not [name for name in folder.disk.list_directory("") if name.endswith("-delete")]
    folder.kill()
    log = folder.open()
    assert [r.value for r in decode_batch(log.read(0, 1))] == [b"new"]
    assert log.high_watermark == 0


def test_written_is_reported_when_the_disk_has_come_so_far_and_not_a_turn_later():
    folder = Folder()
    log = folder.open()
    seen: list[str] = []
    log.append_as_leader(batch(b"a"), 0)
    log.when_written(lambda: seen.append("a"))
    log.append_as_leader(batch(b"b"), 0)
    log.when_written(lambda: seen.append("b"))
    while log.written_end_offset < 1:
        folder.steps.step()
    assert seen == ["a"]


def test_a_lost_partition_folder_is_refused():
    folder = Folder()
    log = folder.open()
    log.append_as_leader(batch(b"a"), 0)
    folder.flush(log)
    files = {
        path: data for path, data in folder.disk.files().items() if not path.startswith("topic-0/")
    }
    folder.disk.replace(files)
    assert folder.try_open().is_offline
    assert "topic-0" in str(folder.failures[0])
