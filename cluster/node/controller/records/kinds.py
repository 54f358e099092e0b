"""Metadata records: of topics, brokers and controllers, users, features, transactions.

Source: Kafka's metadata/src/main/resources/common/metadata/*.json: names, types, versions and tags
were read there, and in the jar files of 4.3.1; PartitionChangeRecord v1 and v2 (tags 6, 7, 8) in a
fork that follows trunk; CordonedLogDirs (KIP-1066: RegisterBrokerRecord v4,
BrokerRegistrationChangeRecord v3) in the branch of its author, and that it is nullable in a
description of Kafka 4.3.1. The bytes of TopicRecord v0, PartitionRecord v1 and FeatureLevelRecord
were compared with logs that released Kafkas wrote
(tests/cluster/node/controller/test_record_vectors.py). KIP-900 (SCRAM), KIP-48 (tokens), KIP-801
(access control), KIP-546 (quotas).
"""

from __future__ import annotations

import uuid
from dataclasses import field
from typing import Annotated, ClassVar

from cluster.node.controller.records import wire
from cluster.node.controller.records.schema import Message, MetadataRecord, Since, Struct
from cluster.values import valueclass

NO_LEADER = -1
NO_LEADER_CHANGE = -2
NO_RECOVERY_STATE_CHANGE = -1


@valueclass(kw_only=True)
class TopicRecord(MetadataRecord):
    """A topic was created; its partitions follow in the same batch."""

    api_key: ClassVar[int] = 2

    name: Annotated[str, wire.STRING]
    topic_id: Annotated[uuid.UUID, wire.UUID]


@valueclass(kw_only=True)
class PartitionRecord(MetadataRecord):
    """The whole state of a partition. `directories` follows the order of `replicas`."""

    api_key: ClassVar[int] = 3
    max_version: ClassVar[int] = 2

    partition_id: Annotated[int, wire.INT32] = -1
    topic_id: Annotated[uuid.UUID, wire.UUID]
    replicas: Annotated[tuple[int, ...], wire.INT32S]
    isr: Annotated[tuple[int, ...], wire.INT32S]
    removing_replicas: Annotated[tuple[int, ...], wire.INT32S] = ()
    adding_replicas: Annotated[tuple[int, ...], wire.INT32S] = ()
    leader: Annotated[int, wire.INT32] = NO_LEADER
    leader_recovery_state: Annotated[int, wire.INT8, wire.Tagged(0)] = 0
    leader_epoch: Annotated[int, wire.INT32] = -1
    partition_epoch: Annotated[int, wire.INT32] = -1
    directories: Annotated[tuple[uuid.UUID, ...], wire.UUIDS, Since(1)] = ()
    eligible_leader_replicas: Annotated[
        tuple[int, ...] | None, wire.NULLABLE_INT32S, Since(2), wire.Tagged(1)
    ] = None
    last_known_elr: Annotated[
        tuple[int, ...] | None, wire.NULLABLE_INT32S, Since(2), wire.Tagged(2)
    ] = None


@valueclass(kw_only=True)
class ConfigRecord(MetadataRecord):
    """A configuration was set, or with a null value deleted."""

    api_key: ClassVar[int] = 4

    resource_type: Annotated[int, wire.INT8]
    resource_name: Annotated[str, wire.STRING]
    name: Annotated[str, wire.STRING]
    value: Annotated[str | None, wire.NULLABLE_STRING]


@valueclass(kw_only=True)
class PartitionChangeRecord(MetadataRecord):
    """What changed of a partition. None, or -2 for the leader, means no change."""

    api_key: ClassVar[int] = 5
    max_version: ClassVar[int] = 2

    partition_id: Annotated[int, wire.INT32] = -1
    topic_id: Annotated[uuid.UUID, wire.UUID]
    isr: Annotated[tuple[int, ...] | None, wire.NULLABLE_INT32S, wire.Tagged(0)] = None
    leader: Annotated[int, wire.INT32, wire.Tagged(1)] = NO_LEADER_CHANGE
    replicas: Annotated[tuple[int, ...] | None, wire.NULLABLE_INT32S, wire.Tagged(2)] = None
    removing_replicas: Annotated[tuple[int, ...] | None, wire.NULLABLE_INT32S, wire.Tagged(3)] = (
        None
    )
    adding_replicas: Annotated[tuple[int, ...] | None, wire.NULLABLE_INT32S, wire.Tagged(4)] = None
    leader_recovery_state: Annotated[int, wire.INT8, wire.Tagged(5)] = NO_RECOVERY_STATE_CHANGE
    directories: Annotated[
        tuple[uuid.UUID, ...] | None, wire.NULLABLE_UUIDS, Since(1), wire.Tagged(8)
    ] = None
    eligible_leader_replicas: Annotated[
        tuple[int, ...] | None, wire.NULLABLE_INT32S, Since(2), wire.Tagged(6)
    ] = None
    last_known_elr: Annotated[
        tuple[int, ...] | None, wire.NULLABLE_INT32S, Since(2), wire.Tagged(7)
    ] = None


@valueclass(kw_only=True)
class RemoveTopicRecord(MetadataRecord):
    """A topic was deleted, with its partitions and its configurations."""

    api_key: ClassVar[int] = 9

    topic_id: Annotated[uuid.UUID, wire.UUID]


@valueclass(kw_only=True)
class ClearElrRecord(MetadataRecord):
    """Eligible leader replicas were cleared: of one topic, or of all when the name is empty."""

    api_key: ClassVar[int] = 28

    topic_name: Annotated[str, wire.STRING] = ""


@valueclass(kw_only=True)
class RecordEndpoint(Message):
    """A listener of a broker (BrokerEndpoint) or a controller (ControllerEndpoint)."""

    name: Annotated[str, wire.STRING]
    host: Annotated[str, wire.STRING]
    port: Annotated[int, wire.UINT16]
    security_protocol: Annotated[int, wire.INT16] = 0


@valueclass(kw_only=True)
class RecordFeature(Message):
    """A range of levels that a node supports of a feature."""

    name: Annotated[str, wire.STRING]
    min_supported_version: Annotated[int, wire.INT16]
    max_supported_version: Annotated[int, wire.INT16]


ENDPOINTS = wire.Array(Struct(RecordEndpoint))
FEATURES = wire.Array(Struct(RecordFeature))


@valueclass(kw_only=True)
class RegisterBrokerRecord(MetadataRecord):
    """A broker registered, with a new epoch."""

    api_key: ClassVar[int] = 0
    max_version: ClassVar[int] = 4

    broker_id: Annotated[int, wire.INT32]
    is_migrating_zk_broker: Annotated[bool, wire.BOOL, Since(2)] = False
    incarnation_id: Annotated[uuid.UUID, wire.UUID]
    broker_epoch: Annotated[int, wire.INT64]
    end_points: Annotated[tuple[RecordEndpoint, ...], ENDPOINTS]
    features: Annotated[tuple[RecordFeature, ...], FEATURES]
    rack: Annotated[str | None, wire.NULLABLE_STRING] = None
    fenced: Annotated[bool, wire.BOOL] = True
    in_controlled_shutdown: Annotated[bool, wire.BOOL, Since(1)] = False
    log_dirs: Annotated[tuple[uuid.UUID, ...], wire.UUIDS, Since(3), wire.Tagged(0)] = ()
    cordoned_log_dirs: Annotated[
        tuple[uuid.UUID, ...] | None, wire.NULLABLE_UUIDS, Since(4), wire.Tagged(1)
    ] = None


@valueclass(kw_only=True)
class UnregisterBrokerRecord(MetadataRecord):
    """A broker was taken out of the cluster."""

    api_key: ClassVar[int] = 1

    broker_id: Annotated[int, wire.INT32]
    broker_epoch: Annotated[int, wire.INT64]


@valueclass(kw_only=True)
class FenceBrokerRecord(MetadataRecord):
    """A broker was fenced (superseded by BrokerRegistrationChangeRecord)."""

    api_key: ClassVar[int] = 7

    id: Annotated[int, wire.INT32]
    epoch: Annotated[int, wire.INT64]


@valueclass(kw_only=True)
class UnfenceBrokerRecord(MetadataRecord):
    """A broker was unfenced (superseded by BrokerRegistrationChangeRecord)."""

    api_key: ClassVar[int] = 8

    id: Annotated[int, wire.INT32]
    epoch: Annotated[int, wire.INT64]


@valueclass(kw_only=True)
class BrokerRegistrationChangeRecord(MetadataRecord):
    """A part of a registration changed.

    `fenced` is -1 unfenced, 0 no change, 1 fenced; `in_controlled_shutdown` 0 no change, 1 yes;
    empty `log_dirs` and null `cordoned_log_dirs` mean no change.
    """

    api_key: ClassVar[int] = 17
    max_version: ClassVar[int] = 3

    broker_id: Annotated[int, wire.INT32]
    broker_epoch: Annotated[int, wire.INT64]
    fenced: Annotated[int, wire.INT8, wire.Tagged(0)] = 0
    in_controlled_shutdown: Annotated[int, wire.INT8, Since(1), wire.Tagged(1)] = 0
    log_dirs: Annotated[tuple[uuid.UUID, ...], wire.UUIDS, Since(2), wire.Tagged(2)] = ()
    cordoned_log_dirs: Annotated[
        tuple[uuid.UUID, ...] | None, wire.NULLABLE_UUIDS, Since(3), wire.Tagged(3)
    ] = None


@valueclass(kw_only=True)
class RegisterControllerRecord(MetadataRecord):
    """A controller reported its listeners and features (KIP-919)."""

    api_key: ClassVar[int] = 27

    controller_id: Annotated[int, wire.INT32]
    incarnation_id: Annotated[uuid.UUID, wire.UUID]
    zk_migration_ready: Annotated[bool, wire.BOOL] = False
    end_points: Annotated[tuple[RecordEndpoint, ...], ENDPOINTS]
    features: Annotated[tuple[RecordFeature, ...], FEATURES]


@valueclass(kw_only=True)
class UnregisterControllerRecord(MetadataRecord):
    """A controller's registration is gone (4.4)."""

    api_key: ClassVar[int] = 29

    controller_id: Annotated[int, wire.INT32]


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


@valueclass(kw_only=True)
class FeatureLevelRecord(MetadataRecord):
    """The finalized level of a feature; 0 means that it is not supported.

    The metadata begin with that of `metadata.version`; its version never advances beyond 0.
    """

    api_key: ClassVar[int] = 12

    name: Annotated[str, wire.STRING]
    feature_level: Annotated[int, wire.INT16]


@valueclass(kw_only=True)
class ProducerIdsRecord(MetadataRecord):
    """A block of producer ids was given to a broker; the next begins at `next_producer_id`."""

    api_key: ClassVar[int] = 15

    broker_id: Annotated[int, wire.INT32]
    broker_epoch: Annotated[int, wire.INT64] = -1
    next_producer_id: Annotated[int, wire.INT64]


@valueclass(kw_only=True)
class NoOpRecord(MetadataRecord):
    """Nothing; keeps the log moving while the cluster is idle (KIP-835)."""

    api_key: ClassVar[int] = 20


@valueclass(kw_only=True)
class BeginTransactionRecord(MetadataRecord):
    """A metadata transaction begins (KIP-868)."""

    api_key: ClassVar[int] = 23

    name: Annotated[str | None, wire.NULLABLE_STRING, wire.Tagged(0)] = None


@valueclass(kw_only=True)
class EndTransactionRecord(MetadataRecord):
    """The metadata transaction takes effect."""

    api_key: ClassVar[int] = 24


@valueclass(kw_only=True)
class AbortTransactionRecord(MetadataRecord):
    """The metadata transaction never happened."""

    api_key: ClassVar[int] = 25

    reason: Annotated[str | None, wire.NULLABLE_STRING, wire.Tagged(0)] = None


TRANSACTION_MARKERS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
"""They mark the ends of a metadata transaction (KIP-868), and change nothing themselves."""


@valueclass(kw_only=True)
class ZkMigrationStateRecord(MetadataRecord):
    """How far a migration from ZooKeeper went: of clusters that began before 4.0."""

    api_key: ClassVar[int] = 21

    zk_migration_state: Annotated[int, wire.INT8]
