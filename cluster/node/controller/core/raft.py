"""The raft client as the controller uses it (`cluster.node.kraft.raft_client.RaftClient` fits)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cluster.node.controller.metadata.snapshot_generator import Writer
from cluster.node.kraft.types import LeaderAndEpoch
from cluster.node.log.types import OffsetAndEpoch


class Raft(Protocol):
    """The part of a raft client that a state machine writes and confirms reads with."""

    @property
    def node_id(self) -> int:
        """This node."""

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The leader that this node knows now."""

    @property
    def high_watermark(self) -> int | None:
        """The offset below which everything is committed; None when not known."""

    @property
    def reported_high_watermark(self) -> int | None:
        """The newest high watermark that a leader reported, this node if it leads; None before."""

    @property
    def next_append_offset(self) -> int | None:
        """The offset of what is appended next, None when this node does not lead."""

    def prepare_append(self, epoch: int, records: Sequence[bytes]) -> int:
        """Prepare one atomic batch and return the offset of its last record.

        Raises NotLeaderError, BufferFullError, BatchTooLargeError: nothing was appended.
        """

    def schedule_prepared_append(self) -> None:
        """Let what was prepared go."""

    def resign(self, epoch: int) -> None:
        """Give up leadership of this epoch."""

    def create_snapshot(
        self, snapshot_id: OffsetAndEpoch, last_contained_log_timestamp_ms: int
    ) -> Writer | None:
        """Begin a snapshot of all below an offset; None when there is no need of it."""

    def confirm_leadership(self, done: Callable[[bool], None]) -> None:
        """Report whether a majority confirmed this leadership by a round trip from now on."""
