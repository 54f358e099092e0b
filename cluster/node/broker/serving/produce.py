"""Produce: records are appended by their leader, and acknowledged as the client wants.

| acks | answered |
|---|---|
| 0 | at once; the client only sees its connection end where there was an error |
| 1 | once a kill of this broker keeps the records |
| -1 | once the high watermark has passed them: every replica of the maximal ISR has them |

With acks=-1 too few replicas in sync refuse the records before they are appended
(NOT_ENOUGH_REPLICAS), or, when the ISR has shrunk since, are reported after it
(NOT_ENOUGH_REPLICAS_AFTER_APPEND). An answer is only for the leader epoch of the append: in a later
one the records may be gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from cluster.node.broker.replication.partition import Acknowledged
from cluster.node.broker.replication.replica import Replica
from cluster.node.broker.replication.replica_manager import PRODUCE, ReplicaManager
from cluster.node.errors import ErrorCode
from cluster.node.log.data.data_config import AppendError, StorageError
from cluster.node.ports import Endpoint
from cluster.node.protocol import data_messages

NOBODY: Final = 0
LEADER: Final = 1
ALL_IN_SYNC: Final = -1
_OUTCOMES: Final = {
    Acknowledged.DONE: ErrorCode.none,
    Acknowledged.TOO_FEW_REPLICAS: ErrorCode.not_enough_replicas_after_append,
    Acknowledged.NOT_LEADER: ErrorCode.not_leader_or_follower,
}

Reply = Callable[[Any], None]


@dataclass(slots=True)
class _Row:
    """What becomes of one partition's records."""

    result: data_messages.ProduceResult
    replica: Replica | None = None
    """Where they were appended; None: they were refused."""
    required_offset: int = 0
    leader_epoch: int = 0


class ProduceHandler:
    """Appends what clients send."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    def handle(self, listener: str, request: data_messages.ProduceRequest, reply: Reply) -> None:
        """Append, and answer when the time has come."""
        if request.acks not in (NOBODY, LEADER, ALL_IN_SYNC):
            rows = [
                _Row(_result(row, ErrorCode.invalid_required_acks)) for row in request.partitions
            ]
        else:
            rows = [self._append(row, request.acks) for row in request.partitions]
        delayed = _Delayed(self._manager, request.acks, rows, listener, reply)
        keys = [(PRODUCE, row.replica.key) for row in rows if row.replica is not None]
        self._manager.delayed.try_or_watch(delayed, keys, request.timeout_ms)

    def _append(self, row: data_messages.ProducePartition, acks: int) -> _Row:
        replica = self._manager.find_leader(row.topic, row.index)
        if isinstance(replica, ErrorCode):
            return _Row(_result(row, replica))
        partition = replica.partition
        if acks == ALL_IN_SYNC and partition.is_under_min_isr:
            return _Row(
                _result(
                    row,
                    ErrorCode.not_enough_replicas,
                    f"{len(partition.isr)} replicas are in sync, {partition.least_in_sync} must be",
                )
            )
        partition.appends()
        try:
            info = replica.log.append_as_leader(row.records, partition.leader_epoch)
            if not info.is_duplicate:
                self._manager.on_append(replica)
        except AppendError as error:
            return _Row(_result(row, error.error, str(error)))
        except StorageError as error:
            return _Row(_result(row, ErrorCode.kafka_storage_error, str(error)))
        result = data_messages.ProduceResult(
            topic=row.topic,
            index=row.index,
            error=ErrorCode.none,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time_ms,
            log_start_offset=info.log_start_offset,
        )
        return _Row(result, replica, info.last_offset + 1, partition.leader_epoch)


class _Delayed:
    """A Produce that waits for its acknowledgements (DelayedProduce)."""

    def __init__(
        self, manager: ReplicaManager, acks: int, rows: list[_Row], listener: str, reply: Reply
    ) -> None:
        self._manager = manager
        self._acks = acks
        self._rows = rows
        self._listener = listener
        self._reply = reply

    def try_complete(self) -> bool:
        waits = False
        for row in self._rows:
            if row.replica is None:
                continue
            error = self._outcome(row, row.replica)
            if error is None:
                waits = True
            else:
                self._settle(row, error)
        if not waits:
            self._answer()
        return not waits

    def expire(self) -> None:
        for row in self._rows:
            if row.replica is not None:
                self._settle(row, ErrorCode.request_timed_out)
        self._answer()

    def _outcome(self, row: _Row, replica: Replica) -> ErrorCode | None:
        """Return how a row ends, None while it is open."""
        if replica.is_offline:
            return ErrorCode.kafka_storage_error
        if not replica.is_hosted:
            return ErrorCode.unknown_topic_or_partition
        partition = replica.partition
        if self._acks == NOBODY:
            return ErrorCode.none
        if self._acks == LEADER:
            if not partition.leads or partition.leader_epoch != row.leader_epoch:
                return ErrorCode.not_leader_or_follower
            written = replica.log.written_end_offset >= row.required_offset
            return ErrorCode.none if written else None
        return _OUTCOMES.get(partition.acknowledgement(row.required_offset, row.leader_epoch))

    def _settle(self, row: _Row, error: ErrorCode) -> None:
        """End a row. An error keeps the offset: it says that the records were appended."""
        row.replica = None
        row.result = replace(row.result, error=error)

    def _answer(self) -> None:
        endpoints: dict[int, Endpoint] = {}
        results = tuple(
            self._manager.with_leader(row.result, self._listener, endpoints) for row in self._rows
        )
        self._reply(data_messages.ProduceResponse(results, tuple(endpoints.values())))


def _result(
    row: data_messages.ProducePartition, error: ErrorCode, message: str | None = None
) -> data_messages.ProduceResult:
    return data_messages.ProduceResult(
        topic=row.topic, index=row.index, error=error, error_message=message
    )
