"""Which APIs exist here, in which versions, and which listener serves them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Self

from kio.index import load_request_schema, load_response_schema

from cluster.values import valueclass


class ApiKey(enum.IntEnum):
    """Kafka's API keys, those that are spoken here, and which versions a node serves of each."""

    versions: tuple[int, ...]
    """The lowest and the highest; empty where it is only sent."""

    def __new__(cls, key: int, *versions: int) -> Self:
        made = int.__new__(cls, key)
        made._value_, made.versions = key, versions
        return made

    PRODUCE = 0, 3, 13
    FETCH = 1, 4, 18
    LIST_OFFSETS = 2, 1, 11
    METADATA = 3, 0, 13
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    SASL_HANDSHAKE = 17, 0, 1
    API_VERSIONS = 18, 0, 4
    CREATE_TOPICS = 19, 2, 7
    DELETE_TOPICS = 20, 1, 6
    DELETE_RECORDS = 21, 0, 2
    INIT_PRODUCER_ID = 22, 0, 5  # 6 is not stable yet (KIP-939)
    OFFSET_FOR_LEADER_EPOCH = 23, 2, 4
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32, 1, 4
    ALTER_REPLICA_LOG_DIRS = 34, 1, 2
    DESCRIBE_LOG_DIRS = 35, 1, 5
    SASL_AUTHENTICATE = 36, 0, 2
    CREATE_PARTITIONS = 37, 0, 3
    ELECT_LEADERS = 43, 0, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 0, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0, 1
    LIST_PARTITION_REASSIGNMENTS = 46, 0, 0
    VOTE = 52, 0, 2
    BEGIN_QUORUM_EPOCH = 53, 0, 1
    END_QUORUM_EPOCH = 54, 0, 1
    DESCRIBE_QUORUM = 55, 0, 2
    ALTER_PARTITION = 56, 2, 3
    UPDATE_FEATURES = 57, 0, 2
    ENVELOPE = 58, 0, 0
    FETCH_SNAPSHOT = 59, 0, 1
    DESCRIBE_CLUSTER = 60, 0, 2
    BROKER_REGISTRATION = 62, 0, 4
    BROKER_HEARTBEAT = 63, 0, 2
    UNREGISTER_BROKER = 64, 0, 0
    ALLOCATE_PRODUCER_IDS = 67, 0, 0
    CONTROLLER_REGISTRATION = 70, 0, 0
    ASSIGN_REPLICAS_TO_DIRS = 73, 0, 0
    LIST_CONFIG_RESOURCES = 74, 0, 1
    DESCRIBE_TOPIC_PARTITIONS = 75, 0, 0
    ADD_RAFT_VOTER = 80, 0, 1
    REMOVE_RAFT_VOTER = 81, 0, 0
    UPDATE_RAFT_VOTER = 82, 0, 0


@valueclass
class VersionRange:
    """The versions of one API, both ends included."""

    lowest: int
    highest: int

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def highest_common(self, other: VersionRange) -> int | None:
        """Return the highest version of both ranges, None when they do not meet."""
        version = min(self.highest, other.highest)
        return version if version >= max(self.lowest, other.lowest) else None


SERVED: Final[Mapping[ApiKey, VersionRange]] = {
    key: VersionRange(*key.versions) for key in ApiKey if key.versions
}
"""What a node can read and answer."""

SPOKEN: Final[Mapping[ApiKey, VersionRange]] = {
    **SERVED,
    ApiKey.FETCH: VersionRange(17, 18),  # below 17 a replica cannot name its directory id
    # Of members of groups and transactional clients, whom no node of ours serves.
    ApiKey.FIND_COORDINATOR: VersionRange(4, 6),
    ApiKey.OFFSET_COMMIT: VersionRange(9, 9),
    ApiKey.OFFSET_FETCH: VersionRange(9, 9),
    ApiKey.JOIN_GROUP: VersionRange(9, 9),
    ApiKey.HEARTBEAT: VersionRange(4, 4),
    ApiKey.LEAVE_GROUP: VersionRange(5, 5),
    ApiKey.SYNC_GROUP: VersionRange(5, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: VersionRange(0, 3),  # from 4 on one of brokers (KIP-890)
    ApiKey.ADD_OFFSETS_TO_TXN: VersionRange(3, 4),
    ApiKey.END_TXN: VersionRange(0, 5),
    ApiKey.TXN_OFFSET_COMMIT: VersionRange(3, 5),
}
"""What a node or client of ours sends."""


class ListenerType(enum.Enum):
    """What kind of node a listener speaks for."""

    BROKER = "broker"
    CONTROLLER = "controller"


_ADMIN = (
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
)
_BROKER = (
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.METADATA,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)
_PEER = (
    ApiKey.FETCH,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.ALTER_PARTITION,
    ApiKey.ENVELOPE,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.UPDATE_RAFT_VOTER,
)
PEER_APIS: Final = frozenset(_PEER)
"""What nodes ask each other on controller listeners, and nobody else."""
READ_APIS: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_CONFIG_RESOURCES,
    }
)
"""What changes nothing: its answer is all that it is for."""
DATA_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
)
"""A broker's data path. On a broker-type listener a Fetch is of data, on others of metadata."""


def _table(*keys: ApiKey) -> Mapping[int, VersionRange]:
    return {int(key): SERVED[key] for key in sorted(keys)}


LISTENER_APIS: Final[Mapping[ListenerType, Mapping[int, VersionRange]]] = {
    ListenerType.BROKER: _table(*_BROKER, *_ADMIN, *DATA_APIS),
    ListenerType.CONTROLLER: _table(*_ADMIN, *_PEER),
}
"""What each type of listener serves, by API key in rising order."""


def listed_apis(listener: ListenerType) -> Mapping[int, VersionRange]:
    """Return what ApiVersions says that a listener serves.

    Produce begins at 0, although 0 to 2 are not served, as in Kafka: librdkafka takes a broker
    without them for one that knows no compression (KAFKA-18659).
    """
    apis = dict(LISTENER_APIS[listener])
    if ApiKey.PRODUCE in apis:
        apis[ApiKey.PRODUCE] = VersionRange(0, apis[ApiKey.PRODUCE].highest)
    return apis


@cache
def request_class(key: int, version: int) -> type[Any]:
    """Return kio's class of a request. Raises kio's KioIndexError for what is not in Kafka."""
    return load_request_schema(key, version)


@cache
def response_class(key: int, version: int) -> type[Any]:
    """Return kio's class of a response. Raises kio's KioIndexError for what is not in Kafka."""
    return load_response_schema(key, version)


def highest_request_class(key: ApiKey) -> type[Any]:
    """Return the class in which handlers take this API's requests."""
    return request_class(key, SERVED[key].highest)


def highest_response_class(key: ApiKey) -> type[Any]:
    """Return the class in which handlers give this API's responses, and clients get them."""
    return response_class(key, SPOKEN[key].highest)


@valueclass
class SupportedFeature:
    """The levels of a feature that this node can work with, both ends included."""

    name: str
    min_level: int
    max_level: int


@valueclass
class FinalizedFeature:
    """The level of a feature that is in force in the cluster."""

    name: str
    level: int


@valueclass
class Features:
    """What a node supports, and what it knows to be in force."""

    supported: tuple[SupportedFeature, ...] = ()
    finalized: tuple[FinalizedFeature, ...] = ()
    finalized_epoch: int = -1
    """The offset of the metadata that `finalized` was read from; -1 while there is none."""


NO_FEATURES: Final = Features()


@valueclass
class Origin:
    """A KafkaPrincipal, and where it connects from."""

    principal_type: str = "User"
    principal_name: str = "ANONYMOUS"
    """The user that SASL proved, with TLS alone the subject of the client's certificate; ANONYMOUS
    where neither is asked for."""
    address: str = ""
    """IPv4 or IPv6, empty where there is none."""
    client_id: str = ""


ANONYMOUS: Final = Origin()
