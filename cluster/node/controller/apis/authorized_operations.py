"""Authorized operations of topics and of the cluster (KIP-430): all of them, for everybody.

A node has no authorizer. The numbers are those of AclOperation, a bit for each.
"""

from __future__ import annotations

from typing import Final

from cluster.node.protocol.messages import i32

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = range(3, 9)
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = range(9, 13)
_OF_ANYTHING: Final = (_CREATE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)


def _bits(*operations: int) -> i32:
    return i32(sum(1 << operation for operation in operations))


OPERATIONS_ON_TOPIC: Final = _bits(*_OF_ANYTHING, _READ, _WRITE, _DELETE)
OPERATIONS_ON_CLUSTER: Final = _bits(*_OF_ANYTHING, _CLUSTER_ACTION, _IDEMPOTENT_WRITE)
OPERATIONS_NOT_ASKED_FOR: Final = i32(-(2**31))
"""MetadataResponse.AUTHORIZED_OPERATIONS_OMITTED"""
