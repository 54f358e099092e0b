"""The frame around a metadata record (MetadataRecordSerde).

    value = uvarint frame version (1), uvarint api key, uvarint version, flexible message

A record's key is null. Decoding is strict: an unknown frame, api key or version, bytes too few or
too many, all are a MetadataRecordError, because a replay that skips what it does not understand
would diverge from the other replicas.
"""

from __future__ import annotations

import uuid
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import Any

from cluster.node.controller.records import kinds
from cluster.node.controller.records.kinds import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from cluster.node.controller.records.schema import (
    MetadataRecord,
    lowest_version,
    read_message,
    write_message,
)
from cluster.node.controller.records.wire import MetadataRecordError, Reader, write_uvarint

FRAME_VERSION = 1
CORDONED_LOG_DIRS = 30
"""The metadata.version from which on registrations name cordoned directories (KIP-1066)."""

RECORDS_REMEMBERED = 4096

RECORD_TYPES: dict[int, type[MetadataRecord]] = {
    found.api_key: found
    for found in vars(kinds).values()
    if isinstance(found, type) and issubclass(found, MetadataRecord) and found is not MetadataRecord
}
"""Every record type that we know, by api key."""


def record_version(record: MetadataRecord, metadata_version: int) -> int:
    """Return the version in which a record is written at a level from 4.0 to 4.3.

    As in Kafka a change of a broker's registration is written in the lowest version that holds it.
    """
    if isinstance(record, RegisterBrokerRecord):
        return 4 if metadata_version >= CORDONED_LOG_DIRS else 3
    if isinstance(record, BrokerRegistrationChangeRecord):
        return lowest_version(record)
    return record.max_version


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """Return a record's value, of the highest version if of none. Raises MetadataRecordError."""
    return _encoded(record, record.max_version if version is None else version)


def _encode(record: MetadataRecord, version: int) -> bytes:
    if not 0 <= version <= record.max_version:
        raise MetadataRecordError(f"{type(record).__name__} has no version {version}")
    out = bytearray()
    write_uvarint(out, FRAME_VERSION)
    write_uvarint(out, record.api_key)
    write_uvarint(out, version)
    write_message(out, record, version)
    return bytes(out)


def decode_record(value: bytes) -> tuple[MetadataRecord, int]:
    """Return the record in a value, perhaps a shared one, and its version. MetadataRecordError."""
    return _decoded(value)


def _decode(value: bytes) -> tuple[MetadataRecord, int]:
    reader = Reader(value)
    frame_version = reader.uvarint()
    if frame_version != FRAME_VERSION:
        raise MetadataRecordError(f"unknown frame version {frame_version}")
    api_key, version = reader.uvarint(), reader.uvarint()
    record_type = RECORD_TYPES.get(api_key)
    if record_type is None:
        raise MetadataRecordError(f"unknown metadata record api key {api_key}")
    if version > record_type.max_version:
        raise MetadataRecordError(f"unknown version {version} of {record_type.__name__}")
    record = read_message(reader, record_type, version)
    if reader.remaining:
        raise MetadataRecordError(f"{reader.remaining} bytes after the {record_type.__name__}")
    return record, version


_encoded = _encode
_decoded = lru_cache(maxsize=RECORDS_REMEMBERED)(_decode)


def remember_records(count: int) -> None:
    """Keep so many records, encoded and decoded, to be returned again.

    For a process with many nodes: they replay one log, each again at every start, and write the
    same images. A node by itself decodes and encodes most records once.
    """
    global _encoded, _decoded  # noqa: PLW0603  (what is kept is this module's own affair)
    _encoded = lru_cache(maxsize=count)(_encode)
    _decoded = lru_cache(maxsize=count)(_decode)


def record_to_json(record: MetadataRecord) -> dict[str, Any]:
    """Return a record's fields under Kafka's JSON names (camelCase), uuids as canonical strings.

    Bytes, which are keys of users only, are given by their length alone.
    """
    converted: dict[str, Any] = _to_json(record)
    return converted


def _to_json(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {camel: _to_json(getattr(value, name)) for name, camel in _names(type(value))}
    return value


@cache
def _names(record_type: type) -> tuple[tuple[str, str], ...]:
    """A class's fields, each with its name in Kafka's JSON."""
    return tuple((item.name, _camel(item.name)) for item in fields(record_type))


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
