"""The numbers of access control: AclOperation, AclPermissionType, ResourceType, PatternType.

A number that Kafka 4.3 does not know is UNKNOWN, as its `fromCode` says.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class _Code(enum.IntEnum):
    """A number whose 0 is UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> _Code:
        del value
        return cls(0)


class AclOperation(_Code):
    """What is done to a resource; ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(_Code):
    """What an entry says of an operation; ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclResourceType(_Code):
    """What there are entries for (ResourceType); ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How the name of an entry means resources (KIP-290); ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of type CLUSTER."""
WILDCARD: Final = "*"
"""Of a literal pattern: every name. Of an entry's host: every host."""

_OF_TOPICS = "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"
_OF_CLUSTER = "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"
SUPPORTED_OPERATIONS: Final[Mapping[AclResourceType, tuple[AclOperation, ...]]] = {
    AclResourceType.TOPIC: tuple(AclOperation[name] for name in _OF_TOPICS.split()),
    AclResourceType.CLUSTER: tuple(AclOperation[name] for name in _OF_CLUSTER.split()),
}
"""AclEntry.supportedOperations, of the types whose authorized operations are described."""
