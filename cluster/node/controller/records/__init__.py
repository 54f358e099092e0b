"""Metadata records in Kafka's own encoding: what the metadata log consists of.

`MetadataRecord` subclasses are in `kinds`; `frame` turns them into record values and back.
"""

from cluster.node.controller.records.frame import (
    RECORD_TYPES,
    decode_record,
    encode_record,
    record_to_json,
    record_version,
    remember_records,
)
from cluster.node.controller.records.schema import MetadataRecord, MetadataRecordError

__all__ = [
    "RECORD_TYPES",
    "MetadataRecord",
    "MetadataRecordError",
    "decode_record",
    "encode_record",
    "record_to_json",
    "record_version",
    "remember_records",
]
