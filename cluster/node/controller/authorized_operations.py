"""What a client may do, as a bit field of AclOperation codes (KIP-430).

There is no authorizer, so it may do everything that a resource of the type allows
(AclEntry.supportedOperations): 3 READ, 4 WRITE, 5 CREATE, 6 DELETE, 7 ALTER, 8 DESCRIBE,
9 CLUSTER_ACTION, 10 DESCRIBE_CONFIGS, 11 ALTER_CONFIGS, 12 IDEMPOTENT_WRITE.
"""

from __future__ import annotations

from typing import Final

from cluster.node.protocol.messages import i32

NOT_ASKED_FOR: Final = i32(-(2**31))
"""MetadataResponse.AUTHORIZED_OPERATIONS_OMITTED"""
TOPIC_OPERATIONS: Final = i32(sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11)))
CLUSTER_OPERATIONS: Final = i32(sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12)))
