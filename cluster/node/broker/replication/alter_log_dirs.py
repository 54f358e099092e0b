r"""Moves of replicas from one log directory of this broker to another (KIP-113, KIP-858).

    COPYING --has all--> ASSIGNING --the metadata say so--> RENAMING --durable--> TAKING_OVER
                                                                     --has all--> moved

A future log in the target directory copies the replica's log as a follower copies its leader's: it
is cut where the epochs differ, so a log that is truncated meanwhile, by another leader or by a
crash, takes the future log along. Once it has caught up the controller is asked to record the
target (ReplicaAlterLogDirsThread): from then on the loss of either directory counts against the
replica, as the one is where it is and the other where it is looked for. Only when the metadata of
this broker name the target may the future log take over.

It takes over in two steps, as a disk has a queue and two disks have no order. First its folder gets
the name of a log in use, with all that it has by then synced before; meanwhile it is neither read
nor appended to. When that is durable the rest is copied, and in the very step in which nothing is
missing, and all is with the kernel, the logs change places and the old one is deleted. A crash in
between leaves two logs of one name, of which `LogManager.open` keeps the longer.

A move that is interrupted goes on after a restart, from what its future log has.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from cluster.node.broker.replication.log_agreement import agreed_end, append_copied
from cluster.node.broker.replication.replica import Replica
from cluster.node.controller.metadata.state import PartitionKey
from cluster.node.log.data.data_config import (
    AppendError,
    OffsetOutOfRangeError,
    StorageError,
    UnexpectedAppendOffsetError,
)
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.data.log_directory import LogDirectory
from cluster.node.log.data.log_manager import LogManager
from cluster.node.log.data.partition_folder import FUTURE_SUFFIX
from cluster.node.log.storage.checkpoint import TopicPartition
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Clock, Timer, Trace, nothing

RETRY_MS: Final = 1_000.0
"""How long a move rests after what should not have happened."""


class MoveState(enum.Enum):
    """See the module."""

    COPYING = "copying"
    ASSIGNING = "assigning"
    RENAMING = "renaming"
    TAKING_OVER = "taking-over"


@dataclass(slots=True, eq=False)
class _Move:
    replica: Replica
    source: LogDirectory
    target: LogDirectory
    future: DataLog
    state: MoveState = MoveState.COPYING
    timer: Timer | None = None


class ReplicaAlterLogDirsManager:
    """See the module. Owned by the node's task."""

    def __init__(
        self,
        logs: LogManager,
        clock: Clock,
        trace: Trace,
        read_max_bytes: int,
        assigned: Callable[[TopicPartition], uuid.UUID | None],
        on_moved: Callable[[Replica], None],
        report_located: Callable[[PartitionKey], None],
    ) -> None:
        """`assigned`: where the metadata have a replica. `on_moved`: its log is another now.

        `report_located`: the controller is to know of another directory of a replica.
        """
        self._logs = logs
        self._clock = clock
        self._trace = trace
        self._read_max_bytes = read_max_bytes
        self._assigned = assigned
        self._on_moved = on_moved
        self._moves: dict[PartitionKey, _Move] = {}
        self._stopped = False
        self._report_located = report_located

    def target(self, key: PartitionKey) -> LogDirectory | None:
        """Return where a replica is moved to, None if it is not."""
        move = self._moves.get(key)
        return None if move is None else move.target

    def directory_to_report(self, key: PartitionKey) -> uuid.UUID | None:
        """Return the target of a move that had caught up; None: it is not that far."""
        move = self._moves.get(key)
        if move is None or move.state is MoveState.COPYING:
            return None
        return move.target.directory_id

    def begin(self, replica: Replica, target: LogDirectory) -> None:
        """Move a replica, which is not on its way anywhere. Raises StorageError."""
        topic_id, _ = replica.key
        future = target.create(replica.at, topic_id, is_future=True)
        future.flush(nothing)  # so that a restart finds it, even if there is nothing to copy
        self._add(replica, target, future)

    def resume(self, replica: Replica) -> None:
        """Go on with the move of a replica that was just opened, if there is one."""
        target = self._logs.future_holder(replica.at)
        if target is not None:
            self._add(replica, target, target.future_logs[replica.at])

    def cancel(self, key: PartitionKey) -> None:
        """End a move and delete what it has copied. Raises StorageError."""
        move = self._drop(key)
        if move is not None:
            move.target.delete(move.replica.at)
            self._report_located(key)

    def poke(self, key: PartitionKey) -> None:
        """Learn that something about a partition has changed."""
        move = self._moves.get(key)
        if move is not None and move.timer is None and not self._stopped:
            self._schedule(move, 0.0)

    def went_offline(self, directory: LogDirectory) -> None:
        """Forget the moves from or to a directory; of those to it the replicas stay."""
        for key, move in list(self._moves.items()):
            if directory in (move.source, move.target):
                self._drop(key)
                self._report_located(key)

    def stop(self) -> None:
        """Copy nothing any more."""
        self._stopped = True
        for move in self._moves.values():
            if move.timer is not None:
                move.timer.cancel()

    # Private.

    def _add(self, replica: Replica, target: LogDirectory, future: DataLog) -> None:
        source = self._logs.holder(replica.at)
        assert source not in (None, target), "a replica moves to another directory"
        assert source is not None
        move = self._moves[replica.key] = _Move(replica, source, target, future)
        self._trace(
            "replica-moving",
            topic=replica.topic,
            partition=replica.index,
            leader_epoch=replica.partition.leader_epoch,
            from_dir=source.path,
            to_dir=target.path,
            end_offset=future.end_offset,
        )
        self._schedule(move, 0.0)

    def _drop(self, key: PartitionKey) -> _Move | None:
        move = self._moves.pop(key, None)
        if move is not None and move.timer is not None:
            move.timer.cancel()
        return move

    def _schedule(self, move: _Move, delay_ms: float) -> None:
        if move.timer is not None:  # a step was poked by what it did itself
            move.timer.cancel()
        move.timer = self._clock.call_later(delay_ms, partial(self._run, move))

    def _run(self, move: _Move) -> None:
        move.timer = None
        if self._stopped or move.state is MoveState.RENAMING:
            return
        try:
            self._step(move)
        except StorageError:
            assert move.source.is_offline or move.target.is_offline, "a log reports what it raises"

    def _step(self, move: _Move) -> None:
        """Copy some, or go on if nothing is missing. Raises StorageError."""
        log, future = move.replica.log, move.future
        try:
            has_copied = self._copy(move)
        except (AppendError, UnexpectedAppendOffsetError, OffsetOutOfRangeError):
            # What it has does not fit what it copies, whatever the epochs say: begin anew.
            future.truncate_fully_and_start_at(log.start_offset)
            has_copied = False
        if has_copied:
            self._schedule(move, 0.0)
        elif future.end_offset != log.end_offset:
            self._schedule(move, RETRY_MS)
        elif future.written_end_offset < future.end_offset:
            future.when_written(partial(self.poke, move.replica.key))
        else:
            self._advance(move.replica.key, move)

    def _copy(self, move: _Move) -> bool:
        """Copy some of what is missing; return whether there was any. Raises what `_step` catches.

        The epochs are compared in each step: the log may have been cut, and have grown again.
        """
        log, future = move.replica.log, move.future
        future.config = log.config
        while (end := _disagreement(log, future)) is not None:
            future.truncate_to(end)
        if future.end_offset < log.start_offset:
            future.truncate_fully_and_start_at(log.start_offset)
        before = future.end_offset
        if before < log.end_offset:
            data = log.read(before, self._read_max_bytes)
            append_copied(future, data, move.replica.partition.leader_epoch)
        future.high_watermark = log.high_watermark
        if future.start_offset < log.start_offset <= future.high_watermark:
            future.increment_log_start_offset(log.start_offset)
        return future.end_offset > before

    def _advance(self, key: PartitionKey, move: _Move) -> None:
        """Go on with a future log that has all, at once, with the kernel. Raises StorageError."""
        if move.state is MoveState.COPYING:
            move.state = MoveState.ASSIGNING
            self._report_located(key)
        is_assigned = self._assigned(move.replica.at) == move.target.directory_id
        if move.state is MoveState.ASSIGNING and is_assigned:
            if move.future.directory.endswith(FUTURE_SUFFIX):
                move.state = MoveState.RENAMING
                move.target.rename_future(move.replica.at, partial(self._finish_rename, move))
            else:  # a crash interrupted it behind this step
                move.state = MoveState.TAKING_OVER
        if move.state is MoveState.TAKING_OVER:
            self._take_over(key, move)

    def _finish_rename(self, move: _Move) -> None:
        move.state = MoveState.TAKING_OVER
        if self._moves.get(move.replica.key) is move:
            self.poke(move.replica.key)

    def _take_over(self, key: PartitionKey, move: _Move) -> None:
        self._drop(key)
        replica = move.replica
        move.source.delete(replica.at)
        move.target.take_over(replica.at)
        replica.replace_log(move.future)
        self._trace(
            "replica-moved",
            topic=replica.topic,
            partition=replica.index,
            leader_epoch=replica.partition.leader_epoch,
            from_dir=move.source.path,
            to_dir=move.target.path,
            end_offset=move.future.end_offset,
        )
        self._on_moved(replica)


def _disagreement(log: DataLog, future: DataLog) -> int | None:
    """Return where a future log has to be cut, as the log that it copies is another there."""
    epoch = future.epochs.latest_epoch
    if epoch is None or future.end_offset <= log.start_offset:
        return None
    end = log.end_offset_for_epoch(epoch)
    if end is None:
        latest = log.epochs.latest_epoch
        end = OffsetAndEpoch(log.end_offset, -1 if latest is None else latest)
    if end.epoch == epoch and end.offset >= future.end_offset:
        return None
    return agreed_end(future, end)
