"""Records of topics, partitions and configurations.

Source: Kafka's metadata/src/main/resources/common/metadata/*.json. Names, types, versions and tags
were read there for PartitionRecord v0-2 and PartitionChangeRecord v0; its v1 and v2 (tags 6, 7, 8)
in a fork that follows trunk. TopicRecord, ConfigRecord and RemoveTopicRecord were read there in
drafts that were not yet flexible and, as flexible messages (ConfigRecord's value nullable), in a
mirror; the bytes of TopicRecord v0 and PartitionRecord v1 were compared with a log that a released
Kafka wrote (tests/cluster/node/controller/test_record_vectors.py). ClearElrRecord was read there.
"""

from __future__ import annotations

import uuid
from typing import Annotated, ClassVar

from cluster.node.controller.records import wire
from cluster.node.controller.records.schema import MetadataRecord, Since
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
