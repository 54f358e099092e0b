"""The metadata that records build up, as maps from key to immutable value.

The same maps exist twice: committed (`CommittedMap`) and newest (`TimelineMap`); `replay` writes
to either. Partitions are keyed apart from their topic, so that one more costs the same however
many there are.
"""

from __future__ import annotations

import enum
import re
import uuid
from dataclasses import fields
from typing import Any, NamedTuple

from cluster.node.controller.metadata.timeline import (
    AppendOffset,
    CommittedMap,
    IndexedMap,
    IndexedTimelineMap,
    MarkedMap,
    StateMap,
    TimelineMap,
)
from cluster.node.controller.records.kinds import (
    NO_LEADER,
    AccessControlEntryRecord,
    DelegationTokenRecord,
    QuotaEntity,
    RecordEndpoint,
    RecordFeature,
    RegisterControllerRecord,
    UserScramCredentialRecord,
)
from cluster.values import valueclass

UNASSIGNED_DIRECTORY = uuid.UUID(int=0)
"""DirectoryId.UNASSIGNED: the broker has not reported which directory holds the replica."""


class ReplayError(Exception):
    """A committed or just generated record does not fit the state. The node must stop.

    A replica that went on would no longer agree with the others.
    """


class ResourceType(enum.IntEnum):
    """ConfigResource.Type, those that are served here."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """What has configurations. The broker named "" stands for all brokers."""

    type: int
    name: str


@valueclass
class TopicImage:
    """A topic; its partitions are 0 to `partition_count` - 1."""

    name: str
    id: uuid.UUID
    partition_count: int = 0


@valueclass
class PartitionRegistration:
    """The state of a partition. `leader` is -1 when there is none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    directories: tuple[uuid.UUID, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


LEADERLESS = "leaderless"
IMBALANCED = "imbalanced"
REASSIGNING = "reassigning"


def partition_marks(partition: PartitionRegistration) -> tuple[int | str, ...]:
    """Return what a partition is found by, without a look at all the others.

    The id of every broker that holds it, in sync or not; LEADERLESS when nobody leads it,
    IMBALANCED when not its preferred leader does, REASSIGNING when its replicas are moving.
    """
    holders: tuple[int | str, ...] = partition.replicas
    others = {*partition.isr, *partition.elr}.difference(holders)
    if others or len(set(holders)) != len(holders):
        holders = tuple(dict.fromkeys((*holders, *partition.isr, *partition.elr)))
    if partition.leader == NO_LEADER:
        holders = (*holders, LEADERLESS)
    if not partition.replicas or partition.leader != partition.replicas[0]:
        holders = (*holders, IMBALANCED)
    if partition.adding_replicas or partition.removing_replicas:
        holders = (*holders, REASSIGNING)
    return holders


@valueclass
class BrokerRegistration:
    """A registered broker."""

    id: int
    epoch: int
    incarnation_id: uuid.UUID
    listeners: tuple[RecordEndpoint, ...]
    features: tuple[RecordFeature, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[uuid.UUID, ...]
    cordoned_log_dirs: tuple[uuid.UUID, ...]


PartitionKey = tuple[uuid.UUID, int]
ConfigKey = tuple[ConfigResource, str]
ScramKey = tuple[str, int]
"""User and mechanism."""
QuotaKey = tuple[tuple[QuotaEntity, ...], str]
"""The entity, its parts ordered by their type, and the quota's own key."""
NEXT_PRODUCER_ID = "next"
"""The only key of `producer_ids`."""


@valueclass
class MetadataState:
    """All maps. `topic_names`, `similar_names` and `config_names` are indexes of the others."""

    topics: StateMap[uuid.UUID, TopicImage]
    topic_names: StateMap[str, uuid.UUID]
    similar_names: StateMap[str, str]
    """Topic name with '.' replaced by '_' -> the name that was created."""
    partitions: MarkedMap[PartitionKey, PartitionRegistration]
    configs: StateMap[ConfigKey, str]
    config_names: StateMap[ConfigResource, tuple[str, ...]]
    """The names that a resource has set, oldest first."""
    brokers: StateMap[int, BrokerRegistration]
    controllers: StateMap[int, RegisterControllerRecord]
    features: StateMap[str, int]
    producer_ids: StateMap[str, int]
    scram_credentials: StateMap[ScramKey, UserScramCredentialRecord]
    delegation_tokens: StateMap[str, DelegationTokenRecord]
    """By token id."""
    access_control: StateMap[uuid.UUID, AccessControlEntryRecord]
    client_quotas: StateMap[QuotaKey, float]

    def topic_by_name(self, name: str) -> TopicImage | None:
        """Return the topic of this name."""
        topic_id = self.topic_names.get(name)
        return None if topic_id is None else self.topics.get(topic_id)

    def partition(self, topic_id: uuid.UUID, index: int) -> PartitionRegistration:
        """Return a partition that exists."""
        registration = self.partitions.get((topic_id, index))
        assert registration is not None, f"no partition {index} of topic {topic_id}"
        return registration

    def resource_config(self, resource: ConfigResource, name: str) -> str | None:
        """Return one config of a resource, None when it is not set there."""
        return self.configs.get((resource, name))

    def resource_configs(self, resource: ConfigResource) -> dict[str, str]:
        """Return what is set on a resource, oldest first."""
        configs: dict[str, str] = {}
        for name in self.config_names.get(resource) or ():
            value = self.configs.get((resource, name))
            assert value is not None
            configs[name] = value
        return configs


def committed_state() -> MetadataState:
    """Return an empty state, for the image that every node replays."""
    maps: dict[str, Any] = {field.name: CommittedMap() for field in fields(MetadataState)}
    return MetadataState(**{**maps, "partitions": IndexedMap(partition_marks)})


def overlay_state(base: MetadataState, offset: AppendOffset) -> MetadataState:
    """Return a state that sees the committed `base` through uncommitted writes."""
    assert isinstance(base.partitions, IndexedMap), "an overlay lies over what is committed"
    maps: dict[str, Any] = {
        field.name: TimelineMap(getattr(base, field.name), offset) for field in fields(base)
    }
    return MetadataState(**{**maps, "partitions": IndexedTimelineMap(base.partitions, offset)})


# Which topic names are legal, and which of them cannot live together (Kafka's Topic class).


NAME_LENGTH_MAX = 249
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The topics that Kafka's coordinators keep their state in."""
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_name_reason(name: str) -> str | None:
    """Return why a topic cannot have this name, or None when it can."""
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def similar_name(name: str) -> str:
    """Return the name as metrics would show it: topics of equal ones collide."""
    return name.replace(".", "_")
