"""Bytes that a released Kafka wrote, and bytes written out by hand from the schemas."""

import json
import uuid
from pathlib import Path

import pytest

from cluster.node.controller.records import (
    RECORD_TYPES,
    decode_record,
    encode_record,
    record_to_json,
)
from cluster.node.controller.records.kinds import PartitionChangeRecord

STORED = Path(__file__).parents[3] / "data" / "kafka" / "record_vectors.jsonl"
VECTORS = [json.loads(line) for line in STORED.read_text().splitlines()]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["type"])
def test_a_record_is_read_from_kafkas_bytes_and_written_in_them(vector):
    record, version = decode_record(bytes.fromhex(vector["bytes"]))
    found = {"type": type(record).__name__, "version": version, "fields": record_to_json(record)}
    assert found == {name: vector[name] for name in found}
    assert encode_record(record, version).hex() == vector["bytes"].replace(" ", "")


def test_kafkas_bytes_name_every_type_but_two_whose_keys_are_kafkas():
    types = {vector["type"] for vector in VECTORS}
    names = {key: kind.__name__ for key, kind in RECORD_TYPES.items()}
    assert {key: name for key, name in names.items() if name not in types} == {
        11: "UserScramCredentialRecord",
        22: "RemoveUserScramCredentialRecord",
    }


def test_json_has_kafkas_field_names():
    record = PartitionChangeRecord(partition_id=5, topic_id=uuid.UUID(int=1), isr=(1, 2))
    value = record_to_json(record)
    assert value["partitionId"] == 5
    assert value["topicId"] == "00000000-0000-0000-0000-000000000001"
    assert value["isr"] == [1, 2]
    assert value["lastKnownElr"] is None
