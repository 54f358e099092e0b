"""The raft requests and responses as the core sees them: flat, immutable, without bytes.

Kafka's messages nest one metadata partition in arrays of topics and partitions; there is only one,
so the core's messages hold its fields directly. `cluster.node.protocol` maps them to and from
Kafka's schemas, refuses requests for other topics with INVALID_REQUEST (42), and turns a response
with a top-level error into one with `top_level_error`.

-1 stands for "none" in leader and replica ids, as on the wire. Directory ids are `uuid.UUID`, and
`NO_DIRECTORY` (all zero bits) stands for "not known" (KIP-853).
"""

from __future__ import annotations

import uuid

from cluster.node.errors import ErrorCode
from cluster.node.log.batch.control import VoterListener
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.values import valueclass

# The requests that change the voter set, flat as in `cluster.node.kraft.messages` (KIP-853).


@valueclass
class AddVoterRequest:
    """AddRaftVoter (80): an operator, or an observer itself, asks the leader for a new voter."""

    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: uuid.UUID
    listeners: tuple[VoterListener, ...]
    """The controller listeners of the new voter."""
    ack_when_committed: bool = True
    """Whether the answer waits until the new set is committed; else it comes at the append."""


@valueclass
class AddVoterResponse:
    """Answer to AddRaftVoter."""

    error: ErrorCode
    message: str | None = None


@valueclass
class RemoveVoterRequest:
    """RemoveRaftVoter (81)."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: uuid.UUID


@valueclass
class RemoveVoterResponse:
    """Answer to RemoveRaftVoter."""

    error: ErrorCode
    message: str | None = None


@valueclass
class UpdateVoterRequest:
    """UpdateRaftVoter (82): a voter reports to its leader where it listens and what it supports."""

    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: uuid.UUID
    listeners: tuple[VoterListener, ...]
    min_kraft_version: int
    max_kraft_version: int


@valueclass
class UpdateVoterResponse:
    """Answer to UpdateRaftVoter."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    leader_endpoint: Endpoint | None = None
    top_level_error: ErrorCode = ErrorCode.none
    """Always none: this API has one error."""


VoterRequest = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest
VoterResponse = AddVoterResponse | RemoveVoterResponse | UpdateVoterResponse


NO_DIRECTORY = uuid.UUID(int=0)
NO_NODE = -1
MAX_OFFSET = 2**63 - 1
MAX_EPOCH = 2**31 - 1
"""No election could follow it: an epoch is an int32 on the wire."""
ORDINARY_EPOCH_MAX = 2**30
"""An election a second takes 34 years to get there."""
EPOCHS_AHEAD_MAX = 1_000
"""How far a message may be ahead of a replica beyond that."""


@valueclass
class VoteRequest:
    """Vote (52): a candidate, or with `pre_vote` a prospective, asks a voter."""

    cluster_id: str | None
    replica_epoch: int
    """The candidate's epoch; of a PreVote the epoch it has now."""
    replica_id: int
    replica_directory_id: uuid.UUID
    voter_id: int
    """The voter that the sender means to ask; -1 when not named (v0)."""
    voter_directory_id: uuid.UUID
    last_offset_epoch: int
    last_offset: int
    pre_vote: bool


@valueclass
class VoteResponse:
    """Answer to Vote. `error` is the partition's."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    vote_granted: bool
    leader_endpoint: Endpoint | None = None
    top_level_error: ErrorCode = ErrorCode.none


@valueclass
class BeginQuorumEpochRequest:
    """BeginQuorumEpoch (53): a leader announces itself and its listener to a voter."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: uuid.UUID
    leader_id: int
    leader_epoch: int
    leader_endpoint: Endpoint | None


@valueclass
class BeginQuorumEpochResponse:
    """Answer to BeginQuorumEpoch. `error` is the partition's."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    leader_endpoint: Endpoint | None = None
    top_level_error: ErrorCode = ErrorCode.none


@valueclass
class ReplicaKey:
    """A replica's identity: id and the directory that holds its log (KIP-853)."""

    id: int
    directory_id: uuid.UUID = NO_DIRECTORY


@valueclass
class EndQuorumEpochRequest:
    """EndQuorumEpoch (54): a resigned leader notifies voters, best successor first."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    preferred_candidates: tuple[ReplicaKey, ...]
    leader_endpoint: Endpoint | None


@valueclass
class EndQuorumEpochResponse:
    """Answer to EndQuorumEpoch. `error` is the partition's."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    leader_endpoint: Endpoint | None = None
    top_level_error: ErrorCode = ErrorCode.none


@valueclass
class FetchRequest:
    """Fetch (1) v17+ of the metadata partition by a replica."""

    cluster_id: str | None
    replica_id: int
    replica_directory_id: uuid.UUID
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int
    high_watermark: int = MAX_OFFSET
    """The replica's own high watermark (v18); MAX_OFFSET when it does not say."""


@valueclass
class FetchResponse:
    """Answer to Fetch. `error` is the partition's."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    high_watermark: int
    """-1 when the leader does not know it yet."""
    log_start_offset: int
    records: bytes = b""
    """Whole record batches, back to back."""
    diverging_epoch: OffsetAndEpoch | None = None
    """The largest epoch and its end offset on the leader, not above what was asked for."""
    snapshot_id: OffsetAndEpoch | None = None
    leader_endpoint: Endpoint | None = None
    top_level_error: ErrorCode = ErrorCode.none


@valueclass
class FetchSnapshotRequest:
    """FetchSnapshot (59)."""

    cluster_id: str | None
    replica_id: int
    replica_directory_id: uuid.UUID
    current_leader_epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


@valueclass
class FetchSnapshotResponse:
    """Answer to FetchSnapshot. `error` is the partition's."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    snapshot_id: OffsetAndEpoch
    size: int = 0
    position: int = 0
    records: bytes = b""
    leader_endpoint: Endpoint | None = None
    top_level_error: ErrorCode = ErrorCode.none


@valueclass
class DescribeQuorumRequest:
    """DescribeQuorum (55) of the metadata partition."""


@valueclass
class ReplicaDescription:
    """What the leader knows of one replica. Timestamps are wall ms, -1 when unknown."""

    replica_id: int
    directory_id: uuid.UUID
    log_end_offset: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int


@valueclass
class DescribeQuorumResponse:
    """Answer to DescribeQuorum. `error` is the partition's."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaDescription, ...] = ()
    observers: tuple[ReplicaDescription, ...] = ()
    nodes: tuple[Endpoint, ...] = ()
    top_level_error: ErrorCode = ErrorCode.none


RaftRequest = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | DescribeQuorumRequest
    | VoterRequest
)
RaftResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | DescribeQuorumResponse
    | VoterResponse
)
