import uuid

import pytest
from kio.records.readers import read_batch

from cluster.node.log.batch.control import (
    ControlRecordType,
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterListener,
    Voters,
    control_type,
    decode_control,
    encode_control,
    remember_control,
)
from cluster.node.log.batch.records import CorruptBatchError, Record, decode_records, encode_batch

MESSAGES = [
    (LeaderChange(1, (1, 2, 3), (1, 3)), 2),
    (SnapshotHeader(1_700_000_000_000), 3),
    (SnapshotFooter(), 4),
    (KRaftVersion(1), 5),
    (Voters((Voter(1, uuid.UUID(int=9), (VoterListener("CONTROLLER", "h", 9093),)),)), 6),
]


@pytest.mark.parametrize(("message", "code"), MESSAGES)
def test_a_control_record_survives_a_batch(message, code):
    data = encode_batch(0, 1, [encode_control(message)], 5, control=True)
    [record] = decode_records(data)
    assert control_type(record) == code == ControlRecordType(code)
    assert decode_control(record) == message


@pytest.mark.parametrize("count", [1, 100])
def test_what_is_kept_is_what_is_written_and_read_and_errors_are_raised_each_time(count):
    try:
        before = [encode_control(message) for message, _ in MESSAGES]
        remember_control(count)
        for (message, _), record in zip(MESSAGES * 2, before * 2, strict=True):
            assert encode_control(message) == record
            assert decode_control(record) == message
            with pytest.raises(CorruptBatchError, match="bytes over"):
                decode_control(Record(record.value + b"x", record.key))
    finally:
        remember_control(0)


def test_a_leader_change_has_kafkas_bytes():
    record = encode_control(LeaderChange(1, (1, 2), (2,)))
    assert record.key == bytes.fromhex("0000 0002")
    # version 0, leader 1, two voters, one granting voter; compact arrays, empty tag sections
    expected = "0000 00000001 03 00000001 00 00000002 00 02 00000002 00 00"
    assert record.value == bytes.fromhex(expected)


def test_kio_sees_the_control_bit_and_key():
    data = encode_batch(0, 1, [encode_control(KRaftVersion(1))], 5, control=True)
    decoded, _ = read_batch(data, 0)
    assert decoded.attributes == 0x20
    assert decoded.records[0].key == bytes.fromhex("0000 0005")


def test_an_unknown_type_is_left_to_the_reader_to_skip():
    assert decode_control(Record(b"\0\0", b"\0\0\0\x63")) is None


@pytest.mark.parametrize(
    "record",
    [
        Record(b"\0\0", None),
        Record(b"\0\0", b"\0"),
        Record(None, b"\0\0\0\x02"),
        Record(b"\0\x09", b"\0\0\0\x02"),
        Record(b"\0\0\0\0", b"\0\0\0\x02"),
        Record(encode_control(SnapshotFooter()).value + b"x", b"\0\0\0\x04"),
    ],
)
def test_a_damaged_control_record_is_corrupt(record):
    with pytest.raises(CorruptBatchError):
        decode_control(record)
