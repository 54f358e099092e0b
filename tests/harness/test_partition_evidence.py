"""Logs of partitions as they lie on a disk, decoded for the checks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.evidence import DataBatch, PartitionLog
from cluster.client.batches import batch_of
from cluster.node.log.batch.records import Record, encode_batch, parse_header, with_place
from harness.evidence.partition_logs import decode_partitions
from results.store.evidence_files import PARTITION_LOGS_FILE, load_evidence, write_lines

CHECKPOINT = "0\n1\nd0 3 {}\n"


def segment(folder, base_offset, *batches):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{base_offset:020}.log").write_bytes(b"".join(batches))


def placed(offset, *values, epoch=0):
    return with_place(batch_of(values, 0), offset, epoch)


def as_evidence(data, *values):
    header = parse_header(data)
    return DataBatch(
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.crc,
        list(values),
    )


def test_a_log_is_its_segments_and_what_the_checkpoints_say(tmp_path):
    first, second = placed(0, "a", "b"), placed(2, "c", epoch=4)
    segment(tmp_path / "d0-3", 0, first)
    segment(tmp_path / "d0-3", 2, second)
    (tmp_path / "replication-offset-checkpoint").write_text(CHECKPOINT.format(2))
    batches = [as_evidence(first, "a", "b"), as_evidence(second, "c")]
    assert decode_partitions("n1", [tmp_path]) == [PartitionLog("n1", "d0-3", 0, 3, 2, batches)]
    (tmp_path / "log-start-offset-checkpoint").write_text(CHECKPOINT.format(1))
    assert decode_partitions("n1", [tmp_path])[0].start_offset == 1


def test_what_is_no_log_of_data_is_passed_over(tmp_path):
    for name in ("__cluster_metadata-0", "d0-3.0123-delete", "empty-1", "x"):
        segment(tmp_path / name, 0, placed(0, "a"))
    (tmp_path / "empty-1" / f"{0:020}.log").unlink()
    (tmp_path / "meta.properties").write_text("")
    assert decode_partitions("n1", [tmp_path]) == []
    assert decode_partitions("n1", [tmp_path / "missing"]) == []


def test_a_log_that_was_to_replace_one_that_is_gone_is_the_log(tmp_path):
    """A node goes on with it, under the name that it has, when the move's source was lost."""
    segment(tmp_path / "b" / "d0-3.0123-future", 0, placed(0, "a", "b"))
    (log,) = decode_partitions("n1", [tmp_path / "a", tmp_path / "b"])
    assert (log.partition, log.end_offset) == ("d0-3", 2)
    segment(tmp_path / "a" / "d0-3", 0, placed(0, "a"))
    (log,) = decode_partitions("n1", [tmp_path / "a", tmp_path / "b"])
    assert log.end_offset == 1


def test_control_batches_have_no_values_and_long_ones_none_that_is_kept(tmp_path):
    control = encode_batch(0, 0, [Record(b"x", b"k")], 0, control=True)
    segment(tmp_path / "d0-3", 0, control, placed(1, "y" * 201, "z"))
    (log,) = decode_partitions("n1", [tmp_path])
    assert [list(batch.values) for batch in log.batches] == [[], [None, "z"]]


def test_a_torn_tail_ends_the_last_segment_only(tmp_path):
    whole, torn = placed(0, "a"), placed(1, "b")[:-1]
    segment(tmp_path / "d0-3", 0, whole, torn)
    (log,) = decode_partitions("n1", [tmp_path])
    assert (log.end_offset, log.damage) == (1, None)
    segment(tmp_path / "d0-3", 1, placed(1, "b"))
    (log,) = decode_partitions("n1", [tmp_path])
    assert "cut off" in log.damage or "announced" in log.damage


@pytest.mark.parametrize(
    ("noted", "mark", "tail", "damage"),
    [
        (2, 1, b"", None),
        (2, 1, placed(2, "c")[:-1], "present"),
        (1, 1, b"", "noted 1"),
        (3, 1, b"", "noted 3"),
        (None, 1, b"", "noted None"),
        (2, None, b"", "noted None"),
    ],
)
def test_a_node_that_stopped_in_order_left_each_log_as_it_noted(
    tmp_path, noted, mark, tail, damage
):
    segment(tmp_path / "d0-3", 0, placed(0, "a", "b"), tail)
    for name, offset in (("recovery-point", noted), ("replication", mark)):
        if offset is not None:
            (tmp_path / f"{name}-offset-checkpoint").write_text(CHECKPOINT.format(offset))
    (log,) = decode_partitions("n1", [tmp_path])
    assert log.damage is None
    (tmp_path / ".kafka_cleanshutdown").write_text("")
    (log,) = decode_partitions("n1", [tmp_path])
    assert log.damage is None if damage is None else damage in log.damage
    (tmp_path / "d0-3" / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    (log,) = decode_partitions("n1", [tmp_path])
    assert (damage or "leader-epoch-checkpoint names") in log.damage


def test_a_length_that_hides_a_batch_is_damage_and_no_torn_tail(tmp_path):
    """One bit of it makes the first batch seem to go on beyond the end."""
    longer = bytearray(placed(0, "a"))
    longer[9] ^= 1 << 4
    segment(tmp_path / "d0-3", 0, bytes(longer), placed(1, "b"))
    (log,) = decode_partitions("n1", [tmp_path])
    assert "announced" in log.damage


@given(st.data())
def test_a_byte_that_changed_is_damage_a_torn_tail_or_outside_of_the_checksum(
    tmp_path_factory, data
):
    folder = tmp_path_factory.mktemp("log")
    batches = [placed(0, "a", "b"), placed(2, "c")]
    content = bytearray(b"".join(batches))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    segment(folder / "d0-3", 0, bytes(content))
    (log,) = decode_partitions("n1", [folder])
    expected = [as_evidence(batches[0], "a", "b"), as_evidence(batches[1], "c")]
    same = [(b.crc, list(b.values)) for b in log.batches]
    intact = [(b.crc, list(b.values)) for b in expected]
    assert log.damage is not None or same == intact[: len(same)]


def test_evidence_is_read_as_it_was_written(tmp_path):
    logs = [
        PartitionLog("n1", "d0-3", 0, 3, 2, [DataBatch(0, 2, 1, 77, ["a", None, "c"])]),
        PartitionLog("n1", "d0-4", 0, 0, None, [], "byte 3"),
    ]
    write_lines(tmp_path / "n1" / "evidence" / PARTITION_LOGS_FILE, logs)
    loaded = load_evidence(tmp_path, ["n1"])
    assert loaded.problems == ()
    assert loaded.evidence.partition_logs == {"n1": logs}


def test_evidence_that_was_changed_is_left_out_and_reported(tmp_path):
    path = tmp_path / "n1" / "evidence" / PARTITION_LOGS_FILE
    write_lines(path, [PartitionLog("n1", "d0-3", 0, 3, 2, [])])
    path.write_bytes(path.read_bytes().replace(b'"end_offset":3', b'"end_offset":4'))
    loaded = load_evidence(tmp_path, ["n1"])
    assert "n1" not in loaded.evidence.partition_logs
    assert len(loaded.problems) == 1
