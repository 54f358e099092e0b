"""What the raft client and its listeners pass to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from cluster.node.kraft import messages
from cluster.node.kraft.messages import NO_NODE, UpdateVoterResponse
from cluster.node.log.metadata.snapshot import Snapshot
from cluster.node.ports import Endpoint, Failure
from cluster.values import valueclass

Response = TypeVar(
    "Response",
    messages.VoteResponse,
    messages.BeginQuorumEpochResponse,
    messages.EndQuorumEpochResponse,
    messages.FetchResponse,
    messages.FetchSnapshotResponse,
    UpdateVoterResponse,
)
"""What says by which leader and epoch its sender goes."""


class NotLeaderError(Exception):
    """The append is for an epoch that this node no longer leads; nothing was appended."""


class BufferFullError(Exception):
    """The accumulator holds as much as it may; nothing was appended. Try again later."""


class BatchTooLargeError(ValueError):
    """The records of one atomic append exceed the largest batch; nothing was appended."""


class IllegalStateError(AssertionError):
    """An invariant of the protocol is broken. The node must stop, loudly."""


class ContradictionError(Exception):
    """A peer's message says what no sound peer says to a sound replica.

    It is raised before anything changed: the message is refused, traced, and the node goes on.
    """


class Send(Protocol):
    """How requests of a role are sent (`OutboundRequests`)."""

    def __call__(
        self,
        destination: Endpoint,
        request: messages.RaftRequest,
        kind: type[Response],
        on_response: Callable[[Response], None],
        on_failure: Callable[[Failure], None] | None = None,
    ) -> None:
        """Send, and pass on the expected response if it is of our epoch."""


@valueclass
class LeaderAndEpoch:
    """The leader of the quorum in an epoch; -1 when none is known."""

    leader_id: int = NO_NODE
    epoch: int = 0


@valueclass
class CommittedBatch:
    """A batch below the high watermark. Control batches come with no records."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    size_bytes: int
    records: tuple[bytes, ...]
    """Values of the metadata records, in offset order."""


class RaftListener(Protocol):
    """The state machine above the log (RaftClient.Listener). Called on the node's task."""

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Take committed batches: in offset order, each exactly once, control batches included."""

    def handle_load_snapshot(self, snapshot: Snapshot, done: Callable[[], None]) -> None:
        """Replace all state by a snapshot's: what it lacks is gone (KAFKA-14894).

        `done` may be called at once or, as a load takes long, in a turn to come; only then is more
        given. The next batch begins at the id's offset. Never called while this node's epoch is
        claimed.
        """

    def handle_high_watermark(self) -> None:
        """Learn that a leader has reported a high watermark, the first since this node started.

        All below it may have been given already, as a snapshot: no commit follows then.
        """

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Learn the leader.

        For this node itself it is called only once the listener was given everything up to and
        including the epoch's LeaderChange record (KAFKA-15345, KAFKA-17333).
        """
