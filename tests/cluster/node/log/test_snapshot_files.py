"""Snapshot files: names, batches, and everything that damage can do to them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.log.batch.control import KRaftVersion
from cluster.node.log.batch.records import CorruptBatchError, iter_batches
from cluster.node.log.metadata.snapshot import (
    DELETED_SUFFIX,
    PART_SUFFIX,
    CorruptSnapshotError,
    SnapshotEncoder,
    parse_snapshot,
    parse_snapshot_name,
    snapshot_name,
)
from cluster.node.log.types import OffsetAndEpoch

ID = OffsetAndEpoch(123, 7)


def encoded(values=((b"a", b"b"), (b"c",)), control=()):
    encoder = SnapshotEncoder(ID, 1_000)
    pieces = [encoder.header(control), *(encoder.records(v) for v in values), encoder.footer()]
    return b"".join(pieces)


def test_a_name_holds_the_end_offset_and_the_epoch():
    assert snapshot_name(ID) == "00000000000000000123-0000000007.checkpoint"
    for suffix in (".checkpoint", PART_SUFFIX, DELETED_SUFFIX):
        assert parse_snapshot_name(snapshot_name(ID, suffix)) == (ID, suffix)


@pytest.mark.parametrize(
    "name",
    ["123-7.checkpoint", "quorum-state", f"{snapshot_name(ID)}.tmp", f"x{snapshot_name(ID)}"],
)
def test_other_names_are_no_snapshots(name):
    assert parse_snapshot_name(name) is None


def test_what_was_written_is_read_back():
    snapshot = parse_snapshot("s", ID, encoded(control=[KRaftVersion(1)]))
    assert list(snapshot.values()) == [b"a", b"b", b"c"]
    assert (snapshot.id, snapshot.last_contained_log_timestamp_ms) == (ID, 1_000)
    assert snapshot.control == (KRaftVersion(1),)


def test_a_snapshot_of_nothing_has_a_header_and_a_footer():
    assert list(parse_snapshot("s", ID, encoded(values=())).values()) == []


def test_batches_begin_at_offset_zero_and_carry_the_epoch():
    headers = [header for header, _ in iter_batches(encoded())]
    assert [header.base_offset for header in headers] == [0, 1, 3, 4]
    assert {header.partition_leader_epoch for header in headers} == {ID.epoch}
    assert [header.is_control for header in headers] == [True, False, False, True]


def test_a_snapshot_that_is_cut_off_anywhere_is_refused():
    data = encoded()
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            parse_snapshot("s", ID, data[:size])


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data())
def test_a_flipped_bit_is_noticed(data):
    content = bytearray(encoded())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptSnapshotError):
        parse_snapshot("s", ID, bytes(content))


def test_what_follows_the_footer_is_refused():
    encoder = SnapshotEncoder(ID, 1_000)
    data = encoder.header() + encoder.footer()
    with pytest.raises(CorruptSnapshotError, match="after the footer"):
        parse_snapshot("s", ID, data + encoder.records([b"late"]))


def test_a_snapshot_of_another_epoch_is_refused():
    with pytest.raises(CorruptSnapshotError, match="epoch 7"):
        parse_snapshot("s", OffsetAndEpoch(123, 8), encoded())


def test_records_without_a_header_are_refused():
    headerless = b"".join(batch for _, batch in iter_batches(encoded()))[len(encoded(())) :]
    with pytest.raises((CorruptSnapshotError, CorruptBatchError)):
        parse_snapshot("s", ID, headerless)
