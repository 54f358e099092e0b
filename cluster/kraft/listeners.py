"""Handing snapshots, committed batches and leader changes to a state machine (ListenerContext)."""

from __future__ import annotations

from cluster.kraft.replicated_log import ReplicatedLog
from cluster.kraft.types import CommittedBatch, LeaderAndEpoch, RaftListener
from cluster.log.records import decode_records, split_batches

MAX_FEED_BYTES = 8 * 1024 * 1024
"""How much is read from the log at once."""


class ListenerContext:
    """Knows what a listener was given so far: every batch once, every leader once."""

    def __init__(self, listener: RaftListener, next_offset: int) -> None:
        self._listener = listener
        self.next_offset = next_offset
        """Everything below was given."""
        self._told: LeaderAndEpoch | None = None
        self._feeding = False

    def feed(self, log: ReplicatedLog) -> None:
        """Give everything below the high watermark that was not given yet."""
        assert not self._feeding, "a listener caused another commit while it was told of one"
        self._feeding = True
        self._load_snapshot(log)
        while self.next_offset < log.high_watermark:
            batches = [
                CommittedBatch(
                    header.base_offset,
                    header.last_offset,
                    header.partition_leader_epoch,
                    header.max_timestamp_ms,
                    header.size_bytes,
                    () if header.is_control else _values(batch),
                )
                for header, batch in split_batches(
                    log.read_committed(self.next_offset, MAX_FEED_BYTES)
                )
            ]
            assert batches, f"nothing to read at {self.next_offset}, below the high watermark"
            assert batches[0].base_offset == self.next_offset, "a gap in the committed log"
            self.next_offset = batches[-1].last_offset + 1
            self._listener.handle_commit(batches)
        self._feeding = False

    def _load_snapshot(self, log: ReplicatedLog) -> None:
        """Give the latest snapshot to who has nothing, or lacks what the log does not hold."""
        latest = log.latest_snapshot_id
        if latest is None or not self.next_offset < latest.offset <= log.high_watermark:
            assert self.next_offset >= log.start_offset, "no snapshot for what the log lacks"
            return
        if self.next_offset == 0 or self.next_offset < log.start_offset:
            self._listener.handle_load_snapshot(log.read_snapshot(latest))
            self.next_offset = latest.offset

    def tell_leader(self, leader: LeaderAndEpoch) -> None:
        """Tell who leads, if that is news."""
        if leader != self._told:
            self._told = leader
            self._listener.handle_leader_change(leader)


def _values(batch: bytes) -> tuple[bytes, ...]:
    values = []
    for record in decode_records(batch):
        assert record.value is not None, "a metadata record without a value"
        values.append(record.value)
    return tuple(values)
