"""FindCoordinator: which broker has a group's or a transactional id's state (KIP-98)."""

from __future__ import annotations

from cluster.client.caller import Caller, Outcome, WrongAnswerError
from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint
from cluster.node.protocol import transaction_messages as t
from cluster.node.protocol.messages import i8


async def find_coordinator(
    client: Caller, endpoint: Endpoint, kind: int, key: str, timeout_ms: float
) -> Outcome:
    """Ask any broker which one coordinates `key`, of type GROUP or TRANSACTION: its node id."""
    request = t.FindCoordinatorRequest(key_type=i8(kind), coordinator_keys=(key,))

    def read(response: t.FindCoordinatorResponse) -> Outcome:
        (found,) = response.coordinators
        if found.key != key:
            raise WrongAnswerError(f"the coordinator of {found.key!r}")
        if found.error_code is not ErrorCode.none:
            return Outcome("fail", error=found.error_code.name)
        return Outcome("ok", int(found.node_id))

    return await client.attempt(endpoint, request, read, timeout_ms)
