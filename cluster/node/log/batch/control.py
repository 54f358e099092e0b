"""Control records of a raft log: what the quorum records of itself between the metadata records.

Key: int16 version, int16 type. Value: one of Kafka's generated messages, encoded by kio, which
begins with its own int16 version. Sources: `ControlRecordType.java`, KIP-595 (LeaderChange),
KIP-630 (snapshot header and footer), KIP-853 (KRaftVersion, Voters).
"""

from __future__ import annotations

import enum
import io
import struct
import uuid
from functools import lru_cache
from typing import Any

import kio.schema.leader_change_message.v0.data as leader_change_v0
import kio.schema.voters_record.v0.data as voters_v0
from kio.schema.k_raft_version_record.v0 import KRaftVersionRecord
from kio.schema.snapshot_footer_record.v0 import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0 import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i64, u16

from cluster.node.log.batch.records import CorruptBatchError, Record
from cluster.node.wire.bounds import bound_frame
from cluster.values import valueclass

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")
_MAX_ELEMENTS = 10_000
"""Of all arrays of one record together; voters and their listeners are a handful."""


class ControlRecordType(enum.IntEnum):
    """Type codes of control records in a raft log (0 and 1 are transaction markers)."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@valueclass
class LeaderChange:
    """First record of an epoch: the leader, the voters, and which of them granted the vote.

    Version 0 at every kraft.version: version 1, which adds the voters' directories, is in Kafka's
    schema only. `ControlRecordUtils` reads version 0 whatever the record says it is, and 4.3.1 and
    4.4.0 end themselves at the bytes of another.
    """

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


@valueclass
class SnapshotHeader:
    """First record of a snapshot; `last_contained_log_timestamp_ms` is wall time."""

    last_contained_log_timestamp_ms: int


@valueclass
class SnapshotFooter:
    """Last record of a snapshot: it is complete."""


@valueclass
class KRaftVersion:
    """The finalized `kraft.version`: 0 static voters, 1 voters in the log."""

    kraft_version: int


@valueclass
class VoterListener:
    """One listener of a voter."""

    name: str
    host: str
    port: int


@valueclass
class Voter:
    """One voter of a voter set: identity, listeners, and the kraft.version range it speaks."""

    voter_id: int
    directory_id: uuid.UUID
    listeners: tuple[VoterListener, ...]
    min_kraft_version: int = 0
    max_kraft_version: int = 1


@valueclass
class Voters:
    """The whole voter set, in force from the record's offset on, committed or not."""

    voters: tuple[Voter, ...]


ControlMessage = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | Voters


def encode_control(message: ControlMessage) -> Record:
    """Encode a control record; batch it with `encode_batch(..., control=True)`."""
    return _encoded(message)


def _encode(message: ControlMessage) -> Record:
    record_type, entity = _to_entity(message)
    with io.BytesIO() as buffer:
        entity_writer(entity.__class__)(buffer, entity)
        return Record(buffer.getvalue(), _KEY.pack(0, record_type))


def control_type(record: Record) -> int:
    """Type code of a control record, which may be one we do not know."""
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatchError("control record without a key of version and type")
    return int(_KEY.unpack_from(record.key)[1])


def decode_control(record: Record) -> ControlMessage | None:
    """Decode a control record; None when its type is not one of ours, which readers skip.

    Raises CorruptBatchError when key or value are damaged or of an unknown version.
    """
    return _decoded(record)


def _decode(record: Record) -> ControlMessage | None:
    code = control_type(record)
    entity_class = _ENTITIES.get(code)
    if entity_class is None:
        return None
    value = record.value
    if value is None or len(value) < _VERSION.size:
        raise CorruptBatchError(f"control record of type {code} without a value")
    (version,) = _VERSION.unpack_from(value)
    if version != 0:
        raise CorruptBatchError(f"control record of type {code} has unknown version {version}")
    try:
        value = bound_frame(value, (entity_class,), max_elements=_MAX_ELEMENTS)
        entity, size = entity_reader(entity_class)(value, 0)
    except Exception as error:  # kio raises many kinds for damaged bytes
        raise CorruptBatchError(f"control record of type {code}: {error}") from error
    if size != len(value):
        raise CorruptBatchError(f"control record of type {code}: {len(value) - size} bytes over")
    return _from_entity(entity)


_encoded = _encode
_decoded = _decode


def remember_control(count: int) -> None:
    """Keep so many control records, encoded and decoded: `controller.records.remember_records`."""
    global _encoded, _decoded  # noqa: PLW0603  (what is kept is this module's own affair)
    _encoded = lru_cache(maxsize=count)(_encode)
    _decoded = lru_cache(maxsize=count)(_decode)


_ENTITIES: dict[int, Any] = {
    ControlRecordType.LEADER_CHANGE: leader_change_v0.LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: voters_v0.VotersRecord,
}
"""All of version 0."""


def _to_entity(message: ControlMessage) -> tuple[ControlRecordType, Any]:
    match message:
        case LeaderChange():
            return ControlRecordType.LEADER_CHANGE, leader_change_v0.LeaderChangeMessage(
                version=i16(0),
                leader_id=BrokerId(message.leader_id),
                voters=tuple(leader_change_v0.Voter(voter_id=i32(v)) for v in message.voters),
                granting_voters=tuple(
                    leader_change_v0.Voter(voter_id=i32(v)) for v in message.granting_voters
                ),
            )
        case SnapshotHeader(timestamp_ms):
            return ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord(
                version=i16(0), last_contained_log_timestamp=i64(timestamp_ms)
            )
        case SnapshotFooter():
            return ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=i16(0))
        case KRaftVersion(kraft_version):
            return ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(
                version=i16(0), k_raft_version=i16(kraft_version)
            )
        case Voters(voters):
            return ControlRecordType.KRAFT_VOTERS, voters_v0.VotersRecord(
                version=i16(0), voters=tuple(_voter_entity(voter) for voter in voters)
            )


def _voter_entity(voter: Voter) -> voters_v0.Voter:
    return voters_v0.Voter(
        voter_id=BrokerId(voter.voter_id),
        voter_directory_id=voter.directory_id,
        endpoints=tuple(
            voters_v0.Endpoint(name=e.name, host=e.host, port=u16(e.port)) for e in voter.listeners
        ),
        k_raft_version_feature=voters_v0.KRaftVersionFeature(
            min_supported_version=i16(voter.min_kraft_version),
            max_supported_version=i16(voter.max_kraft_version),
        ),
    )


def _from_entity(entity: Any) -> ControlMessage:
    match entity:
        case leader_change_v0.LeaderChangeMessage():
            return LeaderChange(
                entity.leader_id,
                tuple(voter.voter_id for voter in entity.voters),
                tuple(voter.voter_id for voter in entity.granting_voters),
            )
        case SnapshotHeaderRecord():
            return SnapshotHeader(entity.last_contained_log_timestamp)
        case SnapshotFooterRecord():
            return SnapshotFooter()
        case KRaftVersionRecord():
            return KRaftVersion(entity.k_raft_version)
        case _:
            return Voters(tuple(_voter(voter) for voter in entity.voters))


def _voter(entity: voters_v0.Voter) -> Voter:
    return Voter(
        entity.voter_id,
        entity.voter_directory_id or uuid.UUID(int=0),
        tuple(VoterListener(e.name, e.host, e.port) for e in entity.endpoints),
        entity.k_raft_version_feature.min_supported_version,
        entity.k_raft_version_feature.max_supported_version,
    )
