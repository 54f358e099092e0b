"""Requests for a broker's data, by type (the data path of KafkaApis).

A broker has no transaction coordinator: transactional ids are refused as by a broker that does not
know where theirs is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster.node.broker.lifecycle.producer_ids import ProducerIdManager
from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.broker.serving.fetch import FetchHandler
from cluster.node.broker.serving.log_dirs import alter_replica_log_dirs, describe_log_dirs
from cluster.node.broker.serving.offsets import (
    delete_records,
    list_offsets,
    offsets_for_leader_epochs,
)
from cluster.node.broker.serving.produce import ProduceHandler
from cluster.node.errors import ErrorCode
from cluster.node.protocol import data_messages
from cluster.node.protocol.messages import NO_THROTTLE, DescribeLogDirsRequest, ProducerId, i16

PRODUCER_ID_TIMEOUT_MS: Final = 30_000.0
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
FIRST_PRODUCER_EPOCH: Final = 0

Reply = Callable[[Any], None]


class DataApis:
    """Dispatches requests; answers each at most once, maybe much later."""

    def __init__(self, manager: ReplicaManager, producer_ids: ProducerIdManager) -> None:
        self._producer_ids = producer_ids
        produce, fetch = ProduceHandler(manager), FetchHandler(manager)
        self._handlers: dict[type, Callable[[str, Any, Reply], None]] = {
            data_messages.ProduceRequest: produce.handle,
            data_messages.FetchRequest: fetch.handle,
            data_messages.ListOffsetsRequest: lambda _, request, reply: reply(
                list_offsets(manager, request)
            ),
            data_messages.OffsetForLeaderEpochRequest: lambda _, request, reply: reply(
                offsets_for_leader_epochs(manager, request)
            ),
            data_messages.DeleteRecordsRequest: lambda _, request, reply: delete_records(
                manager, request, reply
            ),
            data_messages.InitProducerIdRequest: self._init_producer_id,
            DescribeLogDirsRequest: lambda _, request, reply: reply(
                describe_log_dirs(manager, request)
            ),
            data_messages.AlterReplicaLogDirsRequest: lambda _, request, reply: reply(
                alter_replica_log_dirs(manager, request)
            ),
        }

    def handles(self, message: object) -> bool:
        """Whether a request is for a broker's data."""
        return type(message) in self._handlers

    def handle(self, listener: str, message: object, reply: Reply) -> None:
        """Answer a request that `handles`."""
        self._handlers[type(message)](listener, message, reply)

    def _init_producer_id(
        self, _: str, request: data_messages.InitProducerIdRequest, reply: Reply
    ) -> None:
        """Give an idempotent producer a new id; it asks again only where it needs another one."""
        if request.transactional_id is not None:
            empty = request.transactional_id == ""
            reply(
                _producer(
                    ErrorCode.invalid_request if empty else ErrorCode.coordinator_not_available
                )
            )
            return

        def answer(found: int | ErrorCode) -> None:
            if isinstance(found, ErrorCode):
                reply(_producer(found))
            else:
                reply(_producer(ErrorCode.none, found, FIRST_PRODUCER_EPOCH))

        self._producer_ids.generate(PRODUCER_ID_TIMEOUT_MS, answer)


def _producer(
    error: ErrorCode, producer_id: int = NO_PRODUCER_ID, epoch: int = NO_PRODUCER_EPOCH
) -> data_messages.InitProducerIdResponse:
    return data_messages.InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(epoch),
    )
