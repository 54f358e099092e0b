"""AssignmentsManager: a broker reports the log directories of its replicas (KIP-858).

The controller knows where a replica is if the broker had one directory when it was placed. Else the
metadata say UNASSIGNED, or name a directory that is no more, or one that the replica has left.
Elections depend on it: from a directory that is offline nothing is led.

One request is under way at a time, of at most 2,250 assignments. Whatever fails is tried again,
later each time; what the metadata say in the meantime decides whether it is still needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from cluster.node.broker.lifecycle.exchange import Exchange
from cluster.node.broker.lifecycle.registration import NOT_REGISTERED_EPOCH
from cluster.node.controller.metadata.image import LocalReplicaChanges
from cluster.node.controller.metadata.state import PartitionKey
from cluster.node.errors import ErrorCode
from cluster.node.ports import Channel, Clock, Failure, Random, Timer, Trace, backoff_ms
from cluster.node.protocol import messages
from cluster.node.protocol.messages import BrokerId, i32, i64

MAX_ASSIGNMENTS_PER_REQUEST: Final = 2_250
GATHER_MS: Final = 100.0
"""How long assignments gather before they are sent."""
BACKOFF_MS: Final = 100.0
BACKOFF_MAX_MS: Final = 10_000.0

Sent = dict[PartitionKey, uuid.UUID | None]
"""The partitions of a request, and the directory that it names for each."""


class AssignmentsManager:
    """Reports the directories that the metadata lack; it is given partitions, and is stopped."""

    def __init__(
        self,
        broker_id: int,
        request_timeout_ms: float,
        clock: Clock,
        random: Random,
        trace: Trace,
        channel: Channel,
        broker_epoch: Callable[[], int],
        directory_of: Callable[[PartitionKey], uuid.UUID | None],
        locate: Callable[[PartitionKey], uuid.UUID | None],
    ) -> None:
        """`directory_of`: where this node's image has this broker's replica; None: it has none.

        `locate`: where the replica is, or is about to be; None: nowhere yet.
        """
        self._broker_id = broker_id
        self._request_timeout_ms = request_timeout_ms
        self._clock = clock
        self._random = random
        self._trace = trace
        self._broker_epoch = broker_epoch
        self._directory_of = directory_of
        self._locate = locate
        self._pending: dict[PartitionKey, None] = {}
        self._exchange = Exchange(clock, channel)
        self._failures = 0
        self._timer: Timer | None = None
        self._stopped = False

    def partition_changed(self, key: PartitionKey) -> None:
        """Look at a partition that is new, changed or gone."""
        if self._stopped or not self._is_misplaced(key):
            self._pending.pop(key, None)
            return
        self._pending[key] = None
        if self._timer is None and not self._exchange.in_flight:
            self._schedule(GATHER_MS)

    def on_changes(self, changes: LocalReplicaChanges) -> None:
        """Look at all that a publication changes."""
        for key in (*changes.deletes, *changes.leaders, *changes.followers):
            self.partition_changed(key)

    def stop(self) -> None:
        """Fall silent; harmless when that has happened."""
        self._stopped = True
        self._exchange.drop()
        self._pending.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_misplaced(self, key: PartitionKey) -> bool:
        assigned, located = self._directory_of(key), self._locate(key)
        return None not in (assigned, located) and assigned != located

    def _schedule(self, delay_ms: float) -> None:
        self._timer = self._clock.call_later(delay_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        for key in [key for key in self._pending if not self._is_misplaced(key)]:
            del self._pending[key]
        if not self._pending:
            self._failures = 0
            return
        if self._broker_epoch() == NOT_REGISTERED_EPOCH:
            self._schedule(BACKOFF_MS)
            return
        first = islice(self._pending, MAX_ASSIGNMENTS_PER_REQUEST)
        sent = {key: self._locate(key) for key in first}
        self._exchange.begin(
            self._request(sent), self._request_timeout_ms, lambda reply: self._on_reply(sent, reply)
        )

    def _on_reply(self, sent: Sent, reply: Any) -> None:
        assigned = [] if isinstance(reply, Failure) else _assigned_partitions(reply)
        for key in assigned:
            if sent.get(key) == self._locate(key):  # else it has moved on in the meantime
                self._pending.pop(key, None)
        if assigned:
            self._trace("assign-replicas", partitions=len(assigned))
        if len(assigned) == len(sent):
            self._failures = 0
            self._schedule(0)
            return
        self._failures += 1
        self._schedule(backoff_ms(self._failures - 1, BACKOFF_MS, BACKOFF_MAX_MS, self._random))

    def _request(self, sent: Sent) -> messages.AssignReplicasToDirsRequest:
        found: dict[uuid.UUID, dict[uuid.UUID, list[int]]] = {}
        for (topic_id, index), directory_id in sent.items():
            assert directory_id is not None, "what is nowhere is not sent"
            found.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        return messages.AssignReplicasToDirsRequest(
            broker_id=BrokerId(self._broker_id),
            broker_epoch=i64(self._broker_epoch()),
            directories=tuple(
                messages.AssignReplicasToDirsRequestDirectory(
                    id_=directory_id,
                    topics=tuple(
                        messages.AssignReplicasToDirsRequestTopic(
                            topic_id=topic_id,
                            partitions=tuple(
                                messages.AssignReplicasToDirsRequestPartition(
                                    partition_index=i32(index)
                                )
                                for index in indexes
                            ),
                        )
                        for topic_id, indexes in by_topic.items()
                    ),
                )
                for directory_id, by_topic in found.items()
            ),
        )


def _assigned_partitions(reply: Any) -> list[PartitionKey]:
    """Return what a response says is assigned now."""
    return [
        (topic.topic_id, int(item.partition_index))
        for directory in reply.directories
        for topic in directory.topics
        for item in topic.partitions
        if item.error_code is ErrorCode.none
    ]
