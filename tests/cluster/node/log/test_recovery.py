from random import Random

import pytest

from cluster.node.log.metadata.log import CorruptLogError
from cluster.node.log.storage.checkpoint import decode_recovery_point, encode_recovery_point
from tests.cluster.node.log.log_helpers import DIRECTORY, Logs, batch, flushed

RECOVERY_POINT = f"{DIRECTORY}/recovery-point-offset-checkpoint"
EPOCH_FILE = f"{DIRECTORY}/leader-epoch-checkpoint"
EPOCHS = [0, 0, 1, 1, 1, 1, 4, 4, 9, 9]


def segment(base: int) -> str:
    return f"{DIRECTORY}/{base:020d}.log"


def stored(segment_bytes: int = 300) -> Logs:
    """Ten durable batches in four segments and four epochs; the recovery point is 10."""
    logs = Logs(segment_bytes)
    log = logs.open()
    for offset, epoch in enumerate(EPOCHS):
        log.append(batch(offset, epoch))
    flushed(logs, log)
    logs.disk.crash(Random(0), "everything")
    return logs


def replace(logs: Logs, path: str, content: bytes) -> None:
    logs.disk.write(path, content)
    logs.disk.sync(path, lambda error: None)
    logs.steps.run()


def lower_recovery_point(logs: Logs, offset: int) -> None:
    replace(logs, RECOVERY_POINT, encode_recovery_point(DIRECTORY, offset))


def contents(logs: Logs) -> dict[str, bytes]:
    return {n: logs.disk.read(f"{DIRECTORY}/{n}") for n in logs.disk.list_directory(DIRECTORY)}


def test_epoch_file_and_recovery_point_are_as_durable_as_the_records():
    logs = Logs(segment_bytes=1 << 20)
    log = logs.open()
    for epoch in (0, 3, 5):
        log.append(batch(log.end_offset, epoch))
        flushed(logs, log)
        logs.disk.crash(Random(0), "nothing")
        assert logs.disk.read(EPOCH_FILE) == log.epochs.encode()
        assert logs.disk.exists(RECOVERY_POINT)
        log = logs.open()
        assert log.epochs.latest_epoch == epoch


def test_files_are_kafkas():
    logs = stored()
    assert logs.disk.read(RECOVERY_POINT) == b"0\n1\ntopic 0 10\n"
    assert logs.disk.read(EPOCH_FILE) == b"0\n4\n0 0\n1 2\n4 6\n9 8\n"


def test_every_flipped_byte_below_the_recovery_point_stops_the_node():
    logs = stored()
    random = Random(7)
    for name in [n for n in contents(logs) if n.endswith(".log")]:
        path = f"{DIRECTORY}/{name}"
        for position in range(logs.disk.size(path)):
            mask = 1 << random.randrange(0, 8)
            logs.disk.corrupt(path, position, mask)
            with pytest.raises(CorruptLogError) as caught:
                logs.open()
            assert 0 <= caught.value.offset < 10
            logs.disk.corrupt(path, position, mask)
    assert logs.open().end_offset == 10


def test_every_cut_below_the_recovery_point_stops_the_node():
    logs = stored()
    for base in (0, 3, 6, 9):
        content = logs.disk.read(segment(base))
        for size in range(len(content)):
            replace(logs, segment(base), content[:size])
            with pytest.raises(CorruptLogError):
                logs.open()
        replace(logs, segment(base), content)


@pytest.mark.parametrize("base", [0, 3, 6, 9])
def test_a_missing_segment_stops_the_node(base):
    logs = stored()
    logs.disk.remove(segment(base))
    with pytest.raises(CorruptLogError):
        logs.open()


def test_the_error_names_file_position_and_offset():
    logs = stored()
    size = len(batch(0))
    logs.disk.corrupt(segment(3), size + 40, 1)
    with pytest.raises(CorruptLogError, match="CRC is") as caught:
        logs.open()
    error = caught.value
    assert (error.path, error.position, error.offset) == (segment(3), size, 4)
    assert str(error).startswith(f"{segment(3)}: byte {size}, offset 4: ")


@pytest.mark.parametrize("size", range(1, len(batch(0))))
def test_a_torn_last_batch_is_cut_off_and_counted(size):
    logs = stored(segment_bytes=1 << 20)
    whole = logs.disk.read(segment(0))
    replace(logs, segment(0), whole + batch(10, 9)[:size])
    log = logs.open()
    assert (log.end_offset, log.truncated_bytes) == (10, size)
    flushed(logs, log)
    assert logs.disk.read(segment(0)) == whole
    assert logs.open().truncated_bytes == 0


@pytest.mark.parametrize("tail", [b"\0" * 300, b"\xff" * 300, b"\2" * 300])
def test_garbage_behind_the_log_is_a_torn_tail(tail):
    logs = stored(segment_bytes=1 << 20)
    replace(logs, segment(0), logs.disk.read(segment(0)) + tail)
    log = logs.open()
    assert (log.end_offset, log.truncated_bytes) == (10, 300)


def test_a_damaged_batch_before_an_intact_one_stops_the_node_even_above_the_recovery_point():
    logs = stored(segment_bytes=1 << 20)
    lower_recovery_point(logs, 0)
    size = len(batch(0))
    for position in range(9 * size):
        if position >= 8 * size and 12 <= position % size < 16:
            continue  # a higher epoch shows in the batch after, which is the last
        logs.disk.corrupt(segment(0), position, 0x80)
        with pytest.raises(CorruptLogError):
            logs.open()
        logs.disk.corrupt(segment(0), position, 0x80)


def test_a_damaged_last_batch_above_the_recovery_point_is_cut_off():
    """Its durability was never reported, so it may be a write that was torn."""
    logs = stored(segment_bytes=1 << 20)
    lower_recovery_point(logs, 9)
    size = len(batch(0))
    for position in range(9 * size, 10 * size):
        if 12 <= position % size < 16:
            continue  # the epoch is outside the CRC: docs/node.md, limits
        logs.disk.corrupt(segment(0), position, 0x10)
        log = logs.open()
        assert (log.end_offset, log.truncated_bytes) == (9, size)
        logs.disk.crash(Random(0), "nothing")
        logs.disk.corrupt(segment(0), position, 0x10)


def test_what_lies_above_the_recovery_point_is_not_durable_before_it_is_synced_again():
    logs = stored()
    lower_recovery_point(logs, 4)
    log = logs.open()
    assert (log.end_offset, log.durable_end_offset) == (10, 4)
    logs.steps.run()
    assert log.durable_end_offset == 10
    assert logs.disk.read(RECOVERY_POINT) == b"0\n1\ntopic 0 10\n"


def test_a_torn_batch_in_a_segment_that_is_not_the_last_stops_the_node():
    logs = stored()
    lower_recovery_point(logs, 0)
    logs.disk.truncate(segment(3), logs.disk.size(segment(3)) - 1)
    with pytest.raises(CorruptLogError, match="a later segment exists"):
        logs.open()


@pytest.mark.parametrize("content", [b"", b"0\n1\ntopic 0 1", b"0\n1\ntopic 0 x\n", b"\0" * 15])
def test_an_unreadable_recovery_point_counts_as_zero(content):
    assert decode_recovery_point(content) == 0
    logs = stored()
    replace(logs, RECOVERY_POINT, content)
    log = logs.open()
    assert (log.end_offset, log.durable_end_offset) == (10, 0)


@pytest.mark.parametrize("content", [b"", b"0\n1\n0 0", b"nonsense\n"])
def test_an_unreadable_epoch_file_is_rebuilt(content):
    logs = stored()
    replace(logs, EPOCH_FILE, content)
    log = logs.open()
    log.append(batch(10, 9))
    flushed(logs, log)
    assert logs.disk.read(EPOCH_FILE) == b"0\n4\n0 0\n1 2\n4 6\n9 8\n"


def test_an_epoch_file_that_contradicts_durable_batches_stops_the_node():
    logs = stored()
    replace(logs, EPOCH_FILE, b"0\n4\n0 0\n1 2\n4 5\n9 8\n")
    with pytest.raises(CorruptLogError, match="4@6") as caught:
        logs.open()
    assert caught.value.path == EPOCH_FILE


def test_epochs_in_the_file_above_the_recovery_point_are_no_contradiction():
    logs = stored()
    replace(logs, EPOCH_FILE, b"0\n5\n0 0\n1 2\n4 6\n9 8\n12 10\n")
    assert logs.open().epochs.latest_epoch == 9
