"""Records of who may do what, and how much: credentials, tokens, access control, quotas.

Sources: Kafka's metadata/src/main/resources/common/metadata/*.json, as the jar files of 4.3.1 hold
them; KIP-900 (SCRAM), KIP-48 (tokens), KIP-801 (access control), KIP-546 (quotas).
"""

from __future__ import annotations

import uuid
from dataclasses import field
from typing import Annotated, ClassVar

from cluster.node.controller.records import wire
from cluster.node.controller.records.schema import Message, MetadataRecord, Struct
from cluster.values import valueclass


@valueclass(kw_only=True)
class UserScramCredentialRecord(MetadataRecord):
    """What a server keeps of a user's password for one mechanism; it replaces what was there."""

    api_key: ClassVar[int] = 11

    name: Annotated[str, wire.STRING]
    mechanism: Annotated[int, wire.INT8]
    """1: SCRAM-SHA-256, 2: SCRAM-SHA-512."""
    salt: Annotated[bytes, wire.BYTES] = field(repr=False)
    stored_key: Annotated[bytes, wire.BYTES] = field(repr=False)
    server_key: Annotated[bytes, wire.BYTES] = field(repr=False)
    iterations: Annotated[int, wire.INT32]


@valueclass(kw_only=True)
class RemoveUserScramCredentialRecord(MetadataRecord):
    """A user has no credential for this mechanism any more."""

    api_key: ClassVar[int] = 22

    name: Annotated[str, wire.STRING]
    mechanism: Annotated[int, wire.INT8]


@valueclass(kw_only=True)
class DelegationTokenRecord(MetadataRecord):
    """A delegation token was issued or renewed."""

    api_key: ClassVar[int] = 10

    owner: Annotated[str, wire.STRING]
    requester: Annotated[str, wire.STRING]
    renewers: Annotated[tuple[str, ...], wire.STRINGS]
    issue_timestamp: Annotated[int, wire.INT64]
    max_timestamp: Annotated[int, wire.INT64]
    expiration_timestamp: Annotated[int, wire.INT64]
    token_id: Annotated[str, wire.STRING]


@valueclass(kw_only=True)
class RemoveDelegationTokenRecord(MetadataRecord):
    """A delegation token is not valid any more."""

    api_key: ClassVar[int] = 26

    token_id: Annotated[str, wire.STRING]


@valueclass(kw_only=True)
class AccessControlEntryRecord(MetadataRecord):
    """An access control entry; the numbers are those of AclOperation and its like."""

    api_key: ClassVar[int] = 18

    id: Annotated[uuid.UUID, wire.UUID]
    resource_type: Annotated[int, wire.INT8]
    resource_name: Annotated[str, wire.STRING]
    pattern_type: Annotated[int, wire.INT8]
    principal: Annotated[str, wire.STRING]
    host: Annotated[str, wire.STRING]
    operation: Annotated[int, wire.INT8]
    permission_type: Annotated[int, wire.INT8]


@valueclass(kw_only=True)
class RemoveAccessControlEntryRecord(MetadataRecord):
    """An access control entry is gone."""

    api_key: ClassVar[int] = 19

    id: Annotated[uuid.UUID, wire.UUID]


@valueclass(kw_only=True)
class QuotaEntity(Message):
    """One part of what a quota is for: a user, a client id, an address."""

    entity_type: Annotated[str, wire.STRING]
    entity_name: Annotated[str | None, wire.NULLABLE_STRING] = None
    """None: the default of its type."""


QUOTA_ENTITIES = wire.Array(Struct(QuotaEntity))


@valueclass(kw_only=True)
class ClientQuotaRecord(MetadataRecord):
    """A quota of an entity was set or removed."""

    api_key: ClassVar[int] = 14

    entity: Annotated[tuple[QuotaEntity, ...], QUOTA_ENTITIES]
    key: Annotated[str, wire.STRING]
    value: Annotated[float, wire.FLOAT64] = 0.0
    remove: Annotated[bool, wire.BOOL] = False
