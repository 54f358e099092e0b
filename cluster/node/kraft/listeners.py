"""Handing snapshots, committed batches and leader changes to a state machine (ListenerContext).

In Kafka a listener replays on a thread of its own, and the raft thread goes on meanwhile. Here both
share one task, so a long replay is given in slices, with a turn of the task between two of them:
elections, fetches and heartbeats go on while a node takes up hundreds of thousands of records. A
state machine that loads a snapshot says when it is through, and is given nothing before.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.node.kraft.replicated_log import ReplicatedLog
from cluster.node.kraft.types import CommittedBatch, LeaderAndEpoch, RaftListener
from cluster.node.log.batch.records import decode_values, split_batches
from cluster.node.log.metadata.snapshot import Snapshot

FEED_BYTES_PER_TURN = 64 * 1024
"""How much of the log is given in one turn of the node's task, and one batch at least: some hundred
records, so some ten milliseconds."""


class ListenerContext:
    """Knows what a listener was given so far: every batch once, every leader once."""

    def __init__(self, listener: RaftListener, feed_later: Callable[[], None]) -> None:
        """`feed_later` has `feed` called in a turn to come."""
        self._listener = listener
        self._feed_later = feed_later
        self.next_offset = 0
        """Everything below was given."""
        self._notified: LeaderAndEpoch | None = None
        self._feeding = False
        self._waiting = False
        """The next slice has a turn of its own; nothing is given before that."""
        self._loading = False
        """The listener has not said yet that it loaded a snapshot."""

    def feed(self, log: ReplicatedLog, *, in_turn: bool = False) -> None:
        """Give what is below the high watermark and was not given yet, or a first slice of it."""
        assert not self._feeding, "a listener caused another commit while it was given one"
        if self._loading or (self._waiting and not in_turn):
            return
        self._feeding = True
        self._waiting = False
        given_bytes = 0
        self._load_snapshot(log)
        while self.next_offset < log.high_watermark and not self._loading:
            if given_bytes >= FEED_BYTES_PER_TURN:
                self._waiting = True
                self._feed_later()
                break
            given_bytes += self._give(log)
        self._feeding = False

    def _give(self, log: ReplicatedLog) -> int:
        """Give a slice; returns its size in bytes."""
        batches = [
            CommittedBatch(
                header.base_offset,
                header.last_offset,
                header.partition_leader_epoch,
                header.max_timestamp_ms,
                header.size_bytes,
                () if header.is_control else decode_values(batch),
            )
            for header, batch in split_batches(
                log.read_committed(self.next_offset, FEED_BYTES_PER_TURN)
            )
        ]
        assert batches, f"nothing to read at {self.next_offset}, below the high watermark"
        assert batches[0].base_offset == self.next_offset, "a gap in the committed log"
        self.next_offset = batches[-1].last_offset + 1
        self._listener.handle_commit(batches)
        return sum(batch.size_bytes for batch in batches)

    def _load_snapshot(self, log: ReplicatedLog) -> None:
        """Give the latest snapshot to a listener that lacks what the log does not hold."""
        latest = log.latest_snapshot_id
        if latest is None or not self.next_offset < latest.offset <= log.high_watermark:
            assert self.next_offset >= log.start_offset, "no snapshot for what the log lacks"
            return
        if self.next_offset == 0 or self.next_offset < log.start_offset:
            self._loading = True
            snapshot = log.read_snapshot(latest)
            self._listener.handle_load_snapshot(snapshot, lambda: self._on_load(snapshot))

    def _on_load(self, snapshot: Snapshot) -> None:
        assert self._loading, "a snapshot is loaded once"
        self._loading = False
        self.next_offset = snapshot.id.offset
        if not self._feeding:
            self._waiting = True
            self._feed_later()

    def notify_high_watermark(self) -> None:
        """Notify the listener that a leader has reported a high watermark."""
        self._listener.handle_high_watermark()

    def notify_leader(self, leader: LeaderAndEpoch) -> None:
        """Notify the listener of the leader, if that is news."""
        if leader is not self._notified and leader != self._notified:
            self._notified = leader
            self._listener.handle_leader_change(leader)
