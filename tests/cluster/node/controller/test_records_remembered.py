"""Records that are kept, encoded and decoded, are the same as those that are not."""

import uuid

import pytest

from cluster.node.controller.records import (
    MetadataRecordError,
    decode_record,
    encode_record,
    remember_records,
)
from cluster.node.controller.records.frame import RECORDS_REMEMBERED
from cluster.node.controller.records.kinds import PartitionRecord, TopicRecord


@pytest.fixture(params=[0, 2, 1000])
def _kept(request):
    remember_records(request.param)
    yield
    remember_records(RECORDS_REMEMBERED)


def partition(index, replicas=(1, 2, 3)):
    return PartitionRecord(
        partition_id=index, topic_id=uuid.UUID(int=7), replicas=replicas, isr=replicas, leader=1
    )


@pytest.mark.usefixtures("_kept")
def test_what_is_kept_is_what_is_written_and_read():
    records = [partition(index, replicas) for index in range(5) for replicas in ((1, 2, 3), (4,))]
    records.append(TopicRecord(name="t", topic_id=uuid.UUID(int=7)))
    values = [encode_record(record) for record in records]

    assert len(set(values)) == len(records)
    for record, value in zip(records * 2, values * 2, strict=True):
        assert encode_record(record) == value
        assert decode_record(value)[0] == record


@pytest.mark.usefixtures("_kept")
def test_versions_are_kept_apart_and_errors_are_reported_each_time():
    assert encode_record(partition(0), 0) != encode_record(partition(0), 2)
    for _ in range(2):
        with pytest.raises(MetadataRecordError, match="has no version 99"):
            encode_record(partition(0), 99)
        with pytest.raises(MetadataRecordError):
            decode_record(b"\x01")
