"""Bytes cut off, flipped and files lost, anywhere: never a wrong record, never a silent loss."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.log.batch.records import parse_header
from cluster.node.log.data.data_config import OffsetOutOfRangeError, StorageError
from cluster.node.log.data.data_log import MAX_TIMESTAMP
from tests.cluster.node.log.data_helpers import AT, NOW_MS, Folder, batch, contents


def written(*, clean: bool, index_interval: int = 150) -> tuple[Folder, list[bytes], int]:
    """Forty batches in several segments and epochs; returns what is durable as well."""
    folder = Folder(segment_bytes=900, index_interval_bytes=index_interval, cache_bytes=0)
    log = folder.open()
    for number in range(40):
        if number == 30:
            folder.flush(log)
        values = [b"%03d" % number * 10] * (1 + number % 3)
        who = (
            number % 2,
            0,
            log.producers.producers[number % 2].last_sequence + 1 if number > 1 else 0,
        )
        sent = batch(*values, timestamp_ms=NOW_MS + 10 * number, producer=who)
        log.append_as_leader(sent, number // 12)
        folder.run()
    all_batches = contents(log)
    if clean:
        folder.close()
        return folder, all_batches, log.end_offset
    folder.clock.advance(61_000)
    folder.run()
    return folder, all_batches, log.recovery_point


def check(folder: Folder, batches: list[bytes], durable: int):
    """Open and read everything, at every offset; returns whether it was refused."""
    folder.failures.clear()
    directory = folder.try_open()
    folder.run()
    if folder.failures:
        assert len(folder.failures) == 1, "reported once"
        assert directory.is_offline
        return True
    log = directory.logs[AT]
    assert log.end_offset >= durable
    by_offset = {
        offset: each
        for each in batches
        for header in [parse_header(each)]
        for offset in range(header.base_offset, header.next_offset)
    }
    try:
        assert log.start_offset == 0
        for offset in range(log.end_offset):
            assert log.read(offset, 1) == by_offset[offset]
            folder.run()
        log.offset_for_timestamp(NOW_MS)
    except StorageError:
        assert directory.is_offline
        with pytest.raises(StorageError):
            log.append_as_leader(batch(b"x"), 9)
        return True
    return False


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.booleans(),
    st.integers(0, 2**32),
    st.sampled_from(["flip", "cut", "lose", "zero"]),
    st.sampled_from([".log", ".index", ".timeindex", ".snapshot", "-checkpoint", ".metadata"]),
)
def test_damage_anywhere_is_mended_or_refused(clean, seed, kind, suffix):
    folder, batches, durable = stored(clean)
    random = Random(seed)
    files = dict(folder.disk.files())
    path = random.choice(sorted(path for path in files if path.endswith(suffix)))
    content = bytearray(files[path])
    if kind == "lose" or not content:
        del files[path]
    elif kind == "cut":
        files[path] = bytes(content[: random.randrange(0, len(content))])
    elif kind == "zero":
        at = random.randrange(0, len(content))
        files[path] = bytes(content[:at]) + bytes(len(content) - at)
    else:
        content[random.randrange(0, len(content))] ^= 1 << random.randrange(0, 8)
        files[path] = bytes(content)
    before = folder.disk.files()
    folder.disk.replace(files)
    try:
        if suffix == "-checkpoint":  # a plausible other number is another log's history
            check_checkpoint(folder, batches)
        else:
            refused = check(folder, batches, durable)
            if suffix in {".index", ".timeindex", ".snapshot"}:
                assert not refused, "nothing is lost with what can be rebuilt"
    finally:
        folder.disk.replace(before)


def check_checkpoint(folder: Folder, batches: list[bytes]) -> None:
    """Whatever a checkpoint says, no record is another than it was."""
    folder.failures.clear()
    directory = folder.try_open()
    folder.run()
    if folder.failures:
        return
    log = directory.logs[AT]
    try:
        for each in contents(log):
            assert each in batches
    except (StorageError, OffsetOutOfRangeError):
        assert directory.is_offline


_STORED: dict[bool, tuple[Folder, list[bytes], int]] = {}


def stored(clean: bool) -> tuple[Folder, list[bytes], int]:
    if clean not in _STORED:
        _STORED[clean] = written(clean=clean)
    return _STORED[clean]


def test_every_flipped_bit_of_a_header_below_the_recovery_point_is_refused():
    folder, batches, durable = stored(False)
    path = next(path for path in sorted(folder.disk.files()) if path.endswith("0000.log"))
    content = folder.disk.files()[path]
    before = folder.disk.files()
    second = parse_header(content).size_bytes
    for position in [*range(61), *range(second, second + 61)]:
        folder.replace(
            path, content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :]
        )
        assert check(folder, batches, durable), position
        folder.disk.replace(before)


def test_what_waits_to_be_cut_off_is_not_read():
    folder = Folder(cache_bytes=0)
    log = folder.open()
    sent = [batch(b"x" * 30, timestamp_ms=NOW_MS + number) for number in range(3)]
    for each in sent:
        log.append_as_leader(each, 0)
    folder.run()
    path = next(path for path in folder.disk.files() if path.endswith(".log"))
    content = bytearray(folder.disk.files()[path])
    content[-1] ^= 1
    folder.replace(path, bytes(content))
    folder.disk.stall()
    log = folder.open()
    assert log.end_offset == 2
    assert len(folder.disk.files()[path]) == len(content), "its cut waits"
    assert parse_header(log.read(1, 1_000)).next_offset == 2
    assert not folder.failures


@pytest.mark.parametrize("clean", [False, True])
def test_indexes_that_are_missing_are_rebuilt_as_they_were(clean):
    folder, batches, durable = stored(clean)
    before = folder.disk.files()
    indexes = {path: data for path, data in before.items() if path.endswith("index")}
    folder.disk.replace({path: data for path, data in before.items() if path not in indexes})
    assert not check(folder, batches, durable)
    assert {path: folder.disk.files()[path] for path in indexes} == indexes
    folder.disk.replace(before)


TIMES_MS = (0, 40, 10, 90, 20, 70, 95, 30, 60, 120, 15, 80, 140, 50, 100)
"""Of batches in three segments; the latest of a segment is not its last one."""


def timed() -> Folder:
    folder = Folder(segment_bytes=450, index_interval_bytes=60, cache_bytes=0)
    log = folder.open()
    for time_ms in TIMES_MS:
        log.append_as_leader(batch(b"x" * 20, timestamp_ms=NOW_MS + time_ms), 0)
        folder.run()
    folder.close()
    return folder


def found_by_time(folder: Folder, cut_to: int | None):
    """What ListOffsets finds after the start, or after a truncation that follows it."""
    log = folder.open()
    folder.run()
    if cut_to is not None:
        log.truncate_to(cut_to)
        folder.run()
    asked = [MAX_TIMESTAMP, *(NOW_MS + time_ms for time_ms in range(-5, 150, 5))]
    found = [log.offset_for_timestamp(timestamp_ms) for timestamp_ms in asked]
    folder.run()
    assert not folder.failures
    return found


@pytest.mark.parametrize("stop", [Folder.kill, Folder.close])
def test_what_is_found_by_time_is_so_after_any_end_and_an_orderly_one(stop):
    """A recovery wrote time indexes without the largest timestamps of full segments."""
    folder = Folder(segment_bytes=700, index_interval_bytes=400, cache_bytes=0)
    log = folder.open()
    for number in range(20):
        log.append_as_leader(batch(b"x" * 30, timestamp_ms=NOW_MS + number), 0)
    folder.run()
    assert len(log.segment_offsets) == 3
    stop(folder)
    folder.open()
    folder.close()
    log = folder.open()
    found = [log.offset_for_timestamp(NOW_MS + number) for number in range(20)]
    assert [each and each.offset for each in found] == list(range(20))


@pytest.mark.slow
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("cut_to", [None, 8])
def test_no_flipped_bit_of_an_index_changes_what_is_found_by_time(cut_to, every):
    folder = timed()
    before = folder.disk.files()
    expected = found_by_time(folder, cut_to)
    folder.disk.replace(before)
    indexes = [path for path in sorted(before) if path.endswith("index")]
    assert len(indexes) == 6
    for path in indexes:
        for bit in range(0, 8 * len(before[path]), every):
            content = bytearray(before[path])
            content[bit // 8] ^= 1 << bit % 8
            folder.replace(path, bytes(content))
            assert found_by_time(folder, cut_to) == expected, (path, bit)
            folder.disk.replace(before)


def test_a_batch_of_an_epoch_that_never_began_is_cut_off():
    """Its checksum does not cover the epoch, and it lies above the recovery point."""
    folder, batches, durable = stored(False)
    before = folder.disk.files()
    path = max(path for path in before if path.endswith(".log"))
    content = bytearray(before[path])
    last = parse_header(batches[-1])
    begin = len(content) - last.size_bytes
    content[begin + 15] ^= 16  # the lowest byte of the epoch
    folder.replace(path, bytes(content))
    assert not check(folder, batches, durable)
    assert folder.logs.logs[AT].end_offset == last.base_offset
    folder.disk.replace(before)


def test_a_torn_tail_above_the_recovery_point_is_cut_off():
    folder, batches, durable = stored(False)
    before = folder.disk.files()
    path = max(path for path in before if path.endswith(".log"))
    folder.replace(path, before[path] + b"\x00" * 5 + before[path][:70])
    assert not check(folder, batches, durable)
    assert folder.disk.files()[path] == before[path]
    assert folder.logs.logs[AT].truncated_bytes == 75
    folder.disk.replace(before)


def test_a_clean_shutdown_reads_no_batch_but_the_last_ones():
    folder, batches, _ = stored(True)
    before = folder.disk.files()
    folder.failures.clear()
    log = folder.try_open().logs[AT]
    assert log.scanned_bytes <= 150 + 2 * max(map(len, batches))
    folder.run()
    assert not folder.disk.exists(".kafka_cleanshutdown"), "the next end may be another"
    assert folder.logs.previous_broker_epoch == 5
    folder.disk.replace(before)


def test_an_error_of_the_disk_takes_all_logs_offline_once():
    folder = Folder()
    log = folder.open()
    folder.disk.fail(OSError(5, "broken"))
    log.append_as_leader(batch(b"x"), 0)
    folder.run()
    assert [str(error) for error in folder.failures] == ["[Errno 5] broken"]
    for call in (
        lambda: log.append_as_leader(batch(b"x"), 0),
        lambda: log.read(0, 1),
        lambda: log.flush(lambda: None),
    ):
        with pytest.raises(StorageError):
            call()
    folder.clock.advance(10**6)
    assert len(folder.failures) == 1
