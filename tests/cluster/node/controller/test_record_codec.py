"""Every record survives encoding, and every damaged value is refused."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.node.controller.records import (
    RECORD_TYPES,
    MetadataRecordError,
    decode_record,
    encode_record,
    wire,
)
from cluster.node.controller.records.kinds import (
    ENDPOINTS,
    FEATURES,
    QUOTA_ENTITIES,
    PartitionRecord,
    QuotaEntity,
    RecordEndpoint,
    RecordFeature,
    TopicRecord,
)
from cluster.node.controller.records.schema import UNTAGGED, field_table

STRATEGIES = {
    wire.INT8: st.integers(-128, 127),
    wire.INT16: st.integers(-(2**15), 2**15 - 1),
    wire.UINT16: st.integers(0, 2**16 - 1),
    wire.INT32: st.integers(-(2**31), 2**31 - 1),
    wire.INT64: st.integers(-(2**63), 2**63 - 1),
    wire.FLOAT64: st.floats(allow_nan=False),  # a NaN is not equal to itself
    wire.BOOL: st.booleans(),
    wire.UUID: st.uuids(),
    wire.STRING: st.text(max_size=200),
    wire.BYTES: st.binary(max_size=80),
}
STRATEGIES[wire.NULLABLE_STRING] = st.none() | STRATEGIES[wire.STRING]
STRATEGIES[wire.INT32S] = st.lists(STRATEGIES[wire.INT32], max_size=5).map(tuple)
STRATEGIES[wire.STRINGS] = st.lists(STRATEGIES[wire.STRING], max_size=5).map(tuple)
STRATEGIES[wire.UUIDS] = st.lists(STRATEGIES[wire.UUID], max_size=5).map(tuple)
STRATEGIES[wire.NULLABLE_INT32S] = st.none() | STRATEGIES[wire.INT32S]
STRATEGIES[wire.NULLABLE_UUIDS] = st.none() | STRATEGIES[wire.UUIDS]


def messages(message_type, version):
    rows = [row for row in field_table(message_type) if row.since <= version]
    return st.builds(message_type, **{row.name: STRATEGIES[row.wire_type] for row in rows})


STRATEGIES[ENDPOINTS] = st.lists(messages(RecordEndpoint, 0), max_size=3).map(tuple)
STRATEGIES[FEATURES] = st.lists(messages(RecordFeature, 0), max_size=3).map(tuple)
STRATEGIES[QUOTA_ENTITIES] = st.lists(messages(QuotaEntity, 0), max_size=3).map(tuple)

VERSIONS = [
    (record_type, version)
    for record_type in RECORD_TYPES.values()
    for version in range(record_type.max_version + 1)
]
records = st.sampled_from(VERSIONS).flatmap(
    lambda pair: st.tuples(messages(*pair), st.just(pair[1]))
)
topic = TopicRecord(name="a", topic_id=wire.UUID.default)


@pytest.mark.slow
@given(records)
def test_every_record_of_every_version_comes_back_as_it_was(pair):
    record, version = pair
    assert decode_record(encode_record(record, version)) == (record, version)


@pytest.mark.slow
@given(records, st.data())
def test_every_truncation_is_refused(pair, data):
    value = encode_record(*pair)
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(MetadataRecordError):
        decode_record(value[:cut])


@pytest.mark.slow
@given(records, st.binary(min_size=1, max_size=4))
def test_trailing_bytes_are_refused(pair, tail):
    with pytest.raises(MetadataRecordError):
        decode_record(encode_record(*pair) + tail)


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_a_record_or_a_metadata_record_error(value):
    try:
        record, version = decode_record(b"\x01" + value)
    except MetadataRecordError:
        return
    written = encode_record(record, version)
    assert encode_record(*decode_record(written)) == written


def test_every_field_has_a_wire_type_and_tags_are_unique():
    for record_type in RECORD_TYPES.values():
        rows = field_table(record_type)
        assert [f.name for f in dataclasses.fields(record_type)] == [row.name for row in rows]
        tags = [row.tag for row in rows if row.tag != UNTAGGED]
        assert len(tags) == len(set(tags))
        assert all(row.since <= record_type.max_version for row in rows)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (b"", "truncated"),
        (b"\x00\x02\x00", "frame version 0"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x06\x00\x00", "api key 6"),
        (b"\x01\x63\x00\x00", "api key 99"),
        (b"\x01\x14\x01\x00", "version 1 of NoOpRecord"),
        (b"\x01\x14\x00\x01\x05\x00", "unknown tag 5"),
        (b"\x01\x14\x00\x00\x00", "1 bytes after"),
        (b"\x01\xff\xff\xff\xff\xff\x01", "more than 32 bits"),
        (b"\x01\xff\xff\xff\xff\x7f", "more than 32 bits"),
        (b"\x01\x02\x00\x00" + bytes(17), "null for a string"),
        (b"\x01\x02\x00\x02\xff" + bytes(17), "not UTF-8"),
        (b"\x01\x03\x00" + bytes(20) + b"\x00", "null for an array"),
        (b"\x01\x03\x00" + bytes(20) + b"\xff\xff\xff\xff\x0f", "truncated"),
        (b"\x01\x17\x00\x02\x00\x01\x00\x00\x01\x00", "ascending"),
        (b"\x01\x17\x00\x01\x00\x02\x00\x00", "too many in tag 0"),
        (b"\x01\x1b\x00" + bytes(20) + b"\x02", "no bool"),
    ],
)
def test_a_damaged_value_is_refused_with_its_reason(value, complaint):
    with pytest.raises(MetadataRecordError, match=complaint):
        decode_record(value)


@pytest.mark.parametrize(
    "change", [{"name": None}, {"name": 5}, {"name": "\ud800"}, {"topic_id": None}]
)
def test_a_value_that_the_type_cannot_hold_is_refused(change):
    with pytest.raises(MetadataRecordError):
        encode_record(dataclasses.replace(topic, **change))


def test_an_older_version_refuses_what_it_would_lose():
    record = PartitionRecord(
        topic_id=wire.UUID.default, replicas=(1,), isr=(1,), directories=(wire.UUID.default,)
    )
    with pytest.raises(MetadataRecordError, match="no field directories"):
        encode_record(record, 0)
    with pytest.raises(MetadataRecordError, match="no version 3"):
        encode_record(record, 3)
    with pytest.raises(MetadataRecordError):
        encode_record(dataclasses.replace(record, leader=2**31))
