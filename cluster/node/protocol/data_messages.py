"""The messages of a broker's data path.

Produce and Fetch are flat: one list of partitions, in the order in which they came. Before Produce
13 and Fetch 13 a topic is given by its name, from then on by its id; an answer names it as the
request did. The others are kio's classes of the highest version, as all of
`cluster.node.protocol.messages`: their versions differ in fields only.
"""

from __future__ import annotations

import uuid
from typing import Final

from kio.schema.alter_replica_log_dirs.v2.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kio.schema.delete_records.v2.request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.list_offsets.v11.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from cluster.node.errors import ErrorCode
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.values import valueclass

CONSUMER: Final = -1
"""The replica id of a client."""
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_LEADER: Final = -1
NO_TIMESTAMP: Final = -1
NO_SESSION: Final = 0
FINAL_SESSION_EPOCH: Final = -1
"""Of a fetch without a session, or one that ends its session (KIP-227)."""

Topic = str | uuid.UUID


@valueclass
class ProducePartition:
    """What is to be appended to one partition."""

    topic: Topic
    index: int
    records: bytes


@valueclass
class ProduceRequest:
    """Produce (0)."""

    acks: int
    """0: no answer, 1: the leader has it, -1: every replica in sync has it."""
    timeout_ms: float
    partitions: tuple[ProducePartition, ...]
    transactional_id: str | None = None
    adds_partitions: bool = False
    """Whether it adds its partitions to the transaction: what its version says (KIP-890)."""


@valueclass
class ProduceResult:
    """What became of one partition's records."""

    topic: Topic
    index: int
    error: ErrorCode
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    error_message: str | None = None
    leader_id: int = NO_LEADER
    """Who leads, where the error is that this broker does not (KIP-951)."""
    leader_epoch: int = NO_EPOCH


@valueclass
class ProduceResponse:
    """The answer to Produce; with acks 0 it never becomes bytes (`UNANSWERED`)."""

    partitions: tuple[ProduceResult, ...]
    endpoints: tuple[Endpoint, ...] = ()
    """Of the leaders that the partitions name."""


UNANSWERED: Final = ProduceResponse(())
"""What the sender of a Produce with acks 0 gets for an answer, once the request is on its way."""


@valueclass
class FetchPartition:
    """From where on one partition is to be read."""

    topic: Topic
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = NO_OFFSET
    """A follower's own."""
    high_watermark: int = 2**63 - 1
    """The one that it knows: an answer that would raise it need not wait for records."""


@valueclass
class FetchRequest:
    """Fetch (1) of a consumer or of a follower."""

    replica_id: int
    replica_epoch: int
    """The follower's broker epoch."""
    max_wait_ms: float
    min_bytes: int
    max_bytes: int
    partitions: tuple[FetchPartition, ...]
    forgotten: tuple[tuple[Topic, int], ...] = ()
    session_id: int = NO_SESSION
    session_epoch: int = FINAL_SESSION_EPOCH
    committed_only: bool = False
    """isolation_level 1: without the records of open transactions."""
    cluster_id: str | None = None
    rack: str | None = ""
    """None before version 11: such a consumer is answered by leaders only (KIP-392)."""


@valueclass(order=True)
class AbortedTransaction:
    """An aborted transaction in one partition (KIP-98)."""

    first_offset: int
    """Of its first record there."""
    producer_id: int


@valueclass
class FetchResult:
    """What one partition holds from there on."""

    topic: Topic
    index: int
    error: ErrorCode
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    diverging: OffsetAndEpoch | None = None
    """Where the leader's last epoch that is not above the asker's ends: the asker truncates."""
    records: bytes = b""
    leader_id: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    aborted: tuple[AbortedTransaction, ...] = ()
    """Transactions among the records whose records a reader of what is committed skips."""


@valueclass
class FetchResponse:
    """The answer to Fetch."""

    error: ErrorCode
    partitions: tuple[FetchResult, ...] = ()
    session_id: int = NO_SESSION
    endpoints: tuple[Endpoint, ...] = ()


def wants_response(request: object) -> bool:
    """Return whether a request is to be answered: a Produce with acks 0 is not."""
    return not (isinstance(request, ProduceRequest) and request.acks == 0)
