"""Records of who may do what, and how much: credentials, tokens, access control, quotas.

Sources: Kafka's metadata/src/main/resources/common/metadata/*.json, as the jar files of 4.3.1 hold
them; KIP-900 (SCRAM), KIP-48 (tokens), KIP-801 (access control), KIP-546 (quotas).
"""

from __future__ import annotations

import uuid
from dataclasses import field
from typing import Annotated, ClassVar

from cluster.node.controller.records.schema import Message, MetadataRecord, Struct
from cluster.node.controller.records.wire import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    STRINGS,
    UUID,
    Array,
)
from cluster.values import valueclass


@valueclass(kw_only=True)
class UserScramCredentialRecord(MetadataRecord):
    """What a server keeps of a user's password for one mechanism; it replaces what was there."""

    api_key: ClassVar[int] = 11

    name: Annotated[str, STRING]
    mechanism: Annotated[int, INT8]
    """1: SCRAM-SHA-256, 2: SCRAM-SHA-512."""
    salt: Annotated[bytes, BYTES] = field(repr=False)
    stored_key: Annotated[bytes, BYTES] = field(repr=False)
    server_key: Annotated[bytes, BYTES] = field(repr=False)
    iterations: Annotated[int, INT32]


@valueclass(kw_only=True)
class RemoveUserScramCredentialRecord(MetadataRecord):
    """A user has no credential for this mechanism any more."""

    api_key: ClassVar[int] = 22

    name: Annotated[str, STRING]
    mechanism: Annotated[int, INT8]


@valueclass(kw_only=True)
class DelegationTokenRecord(MetadataRecord):
    """A delegation token was issued or renewed."""

    api_key: ClassVar[int] = 10

    owner: Annotated[str, STRING]
    requester: Annotated[str, STRING]
    renewers: Annotated[tuple[str, ...], STRINGS]
    issue_timestamp: Annotated[int, INT64]
    max_timestamp: Annotated[int, INT64]
    expiration_timestamp: Annotated[int, INT64]
    token_id: Annotated[str, STRING]


@valueclass(kw_only=True)
class RemoveDelegationTokenRecord(MetadataRecord):
    """A delegation token is not valid any more."""

    api_key: ClassVar[int] = 26

    token_id: Annotated[str, STRING]


@valueclass(kw_only=True)
class AccessControlEntryRecord(MetadataRecord):
    """An access control entry; the numbers are those of AclOperation and its like."""

    api_key: ClassVar[int] = 18

    id: Annotated[uuid.UUID, UUID]
    resource_type: Annotated[int, INT8]
    resource_name: Annotated[str, STRING]
    pattern_type: Annotated[int, INT8]
    principal: Annotated[str, STRING]
    host: Annotated[str, STRING]
    operation: Annotated[int, INT8]
    permission_type: Annotated[int, INT8]


@valueclass(kw_only=True)
class RemoveAccessControlEntryRecord(MetadataRecord):
    """An access control entry is gone."""

    api_key: ClassVar[int] = 19

    id: Annotated[uuid.UUID, UUID]


@valueclass(kw_only=True)
class QuotaEntity(Message):
    """One part of what a quota is for: a user, a client id, an address."""

    entity_type: Annotated[str, STRING]
    entity_name: Annotated[str | None, NULLABLE_STRING] = None
    """None: the default of its type."""


QUOTA_ENTITIES = Array(Struct(QuotaEntity))


@valueclass(kw_only=True)
class ClientQuotaRecord(MetadataRecord):
    """A quota of an entity was set or removed."""

    api_key: ClassVar[int] = 14

    entity: Annotated[tuple[QuotaEntity, ...], QUOTA_ENTITIES]
    key: Annotated[str, STRING]
    value: Annotated[float, FLOAT64] = 0.0
    remove: Annotated[bool, BOOL] = False
