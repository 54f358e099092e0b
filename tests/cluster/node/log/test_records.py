import contextlib
import struct
import warnings

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from cluster.node.log.batch.records import (
    CorruptBatchError,
    Record,
    check_batch,
    decode_records,
    encode_batch,
    iter_batches,
    parse_header,
    with_place,
)

with warnings.catch_warnings():  # it reads its schemas by a function that Python 3.11 deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

payloads = st.none() | st.binary(max_size=300)
record_lists = st.lists(st.builds(Record, payloads, payloads), min_size=1, max_size=20)
offsets = st.integers(0, 2**62)
epochs = st.integers(0, 2**31 - 1)
timestamps_ms = st.integers(0, 4_102_444_800_000)  # up to the year 2100


@pytest.mark.slow
@given(offsets, epochs, record_lists, timestamps_ms, st.booleans())
def test_decodes_what_it_encoded(offset, epoch, records, timestamp_ms, control):
    data = encode_batch(offset, epoch, records, timestamp_ms, control=control)
    [(header, whole)] = iter_batches(data)
    assert (header.base_offset, header.partition_leader_epoch) == (offset, epoch)
    assert header.next_offset == header.last_offset + 1 == offset + len(records)
    assert (header.record_count, header.is_control) == (len(records), control)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (timestamp_ms, timestamp_ms)
    assert header.size_bytes == len(data)
    assert whole == data
    assert decode_records(data) == records


@pytest.mark.slow
@given(offsets, epochs, record_lists, timestamps_ms, st.booleans())
def test_kio_reads_the_same(offset, epoch, records, timestamp_ms, control):
    data = encode_batch(offset, epoch, records, timestamp_ms, control=control)
    decoded, size = read_batch(data, 0)
    assert size == len(data)
    assert (decoded.base_offset, decoded.partition_leader_epoch) == (offset, epoch)
    assert bool(decoded.attributes & 0x20) == control
    assert (decoded.producer_id, decoded.producer_epoch, decoded.base_sequence) == (-1, -1, -1)
    assert [(r.key, r.value) for r in decoded.records] == [(r.key, r.value) for r in records]
    assert [r.offset for r in decoded.records] == [offset + i for i in range(len(records))]


@pytest.mark.slow
@given(offsets, epochs, record_lists, timestamps_ms)
def test_kafka_python_reads_the_same(offset, epoch, records, timestamp_ms):
    decoded = KafkaPythonBatch(encode_batch(offset, epoch, records, timestamp_ms))
    assert decoded.validate_crc()
    assert (decoded.base_offset, decoded.leader_epoch) == (offset, epoch)
    assert [(r.key, r.value, r.timestamp) for r in decoded] == [
        (r.key, r.value, timestamp_ms) for r in records
    ]


def test_kafka_python_sees_a_control_batch():
    control = Record(b"\0\0\0\0\0\x01\x01\x01\0", struct.pack(">hh", 0, 2))
    decoded = KafkaPythonBatch(encode_batch(7, 3, [control], 5, control=True))
    assert decoded.validate_crc()
    assert decoded.is_control_batch


def test_offset_and_epoch_are_patched_without_a_new_crc():
    data = encode_batch(5, 3, [Record(b"x"), Record(b"y")], 9)
    patched = with_place(data, 70, 8)
    header = check_batch(patched)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (70, 71, 8)
    assert patched == encode_batch(70, 8, [Record(b"x"), Record(b"y")], 9)


def test_batches_are_split_in_order():
    first, second = encode_batch(0, 0, [Record(b"a")], 1), encode_batch(1, 2, [Record(b"b")], 1)
    assert [(h.base_offset, b) for h, b in iter_batches(first + second)] == [
        (0, first),
        (1, second),
    ]


@pytest.mark.parametrize("cut", [1, 11, 12, 60, 61, 70])
def test_a_cut_off_batch_is_corrupt(cut):
    data = encode_batch(0, 0, [Record(b"a" * 20)], 1)
    with pytest.raises(CorruptBatchError):
        list(iter_batches(data + data[:cut]))


def test_every_flipped_bit_beyond_offset_and_epoch_is_seen():
    data = encode_batch(0, 0, [Record(b"value", b"key")], 1)
    for position in [*range(8, 12), *range(16, len(data))]:
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptBatchError):
                list(iter_batches(bytes(damaged)))


def test_a_record_count_that_contradicts_the_offsets_is_corrupt():
    data = bytearray(encode_batch(0, 0, [Record(b"a"), Record(b"b")], 1))
    struct.pack_into(">i", data, 23, 5)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    with pytest.raises(CorruptBatchError, match="2 records for 6 offsets"):
        list(iter_batches(bytes(data)))


@given(st.binary(min_size=1, max_size=60), st.integers(1, 4))
def test_nonsense_records_with_a_good_crc_never_escape_as_another_error(body, count):
    data = bytearray(encode_batch(0, 0, [Record(b"")] * count, 1)[:61] + body)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    header = check_batch(bytes(data))
    assert header.size_bytes == len(data)
    with contextlib.suppress(CorruptBatchError):
        assert len(decode_records(bytes(data))) == count


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch(0, 0, [], 1)


def test_another_magic_is_refused():
    data = bytearray(encode_batch(0, 0, [Record(b"a")], 1))
    data[16] = 1
    with pytest.raises(CorruptBatchError, match="magic is 1"):
        parse_header(bytes(data))
