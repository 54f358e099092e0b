"""AllocateProducerIds: blocks of ids that no broker gets twice (KIP-730)."""

from __future__ import annotations

from cluster.node.controller.metadata.registrations import checked_epoch
from cluster.node.controller.metadata.result import ControllerResult, RequestError
from cluster.node.controller.metadata.state import NEXT_PRODUCER_ID, MetadataState
from cluster.node.controller.records.system import ProducerIdsRecord
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    ProducerId,
    i32,
)

PRODUCER_ID_BLOCK_SIZE = 1_000
"""ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE"""
PRODUCER_ID_MAX = 2**63 - 1


def allocate_producer_ids(
    request: AllocateProducerIdsRequest, state: MetadataState
) -> ControllerResult[AllocateProducerIdsResponse]:
    """Give the next block (ProducerIdControlManager).

    Raises RequestError: STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR when there is none left.
    """
    checked_epoch(state, request.broker_id, request.broker_epoch)
    first = state.producer_ids.get(NEXT_PRODUCER_ID) or 0
    if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        message = f"Exhausted all producerIds as the next block's end would exceed {first}"
        raise RequestError(ErrorCode.unknown_server_error, message)
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    return ControllerResult(
        records=(record,),
        response=AllocateProducerIdsResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            producer_id_start=ProducerId(first),
            producer_id_len=i32(PRODUCER_ID_BLOCK_SIZE),
        ),
    )
