"""Questions that a fault asks the nodes to see what it did: one request, one answer or none."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cluster.backends.base import ClientNetwork
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from cluster.node.ports import Endpoint, Failure
from nemeses.base import View

ASK_TIMEOUT_MS = 1_000.0
POLL_S = 0.1

T = TypeVar("T")


async def ask(
    view: View, endpoint: Endpoint, message: object, timeout_ms: float = ASK_TIMEOUT_MS
) -> object:
    """Send one request on a connection of its own; a `Failure` when there is no response."""
    network = view.backend.client_network()
    try:
        return await request(network, endpoint, message, timeout_ms)
    finally:
        network.close()


async def request(
    network: ClientNetwork, endpoint: Endpoint, message: object, timeout_ms: float = ASK_TIMEOUT_MS
) -> object:
    """Send one request; a `Failure` when there is no response."""
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def settle(reply: object) -> None:
        if not future.done():
            future.set_result(reply)

    network.request(endpoint, message, timeout_ms, settle)
    await asyncio.wait((future,), timeout=timeout_ms / 1000.0 + 1.0)
    return future.result() if future.done() else Failure.TIMED_OUT


async def describe(view: View, node: str) -> DescribeQuorumResponse | None:
    """What a node says of the quorum; None when it does not lead or does not answer."""
    answer = await ask(view, view.backend.endpoint(node, "CONTROLLER"), DescribeQuorumRequest())
    if isinstance(answer, DescribeQuorumResponse) and answer.error is ErrorCode.none:
        return answer
    return None


async def epoch_of(view: View, node: str) -> int:
    """The epoch that a node is in, leader or not; -1 when it does not answer."""
    answer = await ask(view, view.backend.endpoint(node, "CONTROLLER"), DescribeQuorumRequest())
    return answer.leader_epoch if isinstance(answer, DescribeQuorumResponse) else -1


async def leading(view: View) -> tuple[str, DescribeQuorumResponse] | None:
    """The leader, and what it says of the quorum."""
    leader = await view.leader()
    described = None if leader is None else await describe(view, leader)
    return None if leader is None or described is None else (leader, described)


async def until(
    find: Callable[[], Awaitable[T | None]],
    timeout_s: float,
    lag: Callable[[], Awaitable[int | None]] | None = None,
) -> T | None:
    """Try again until something is found; the last try begins when the time is over.

    With `lag`, asked when the time is over, it begins again as long as the lag is known and less
    than it was.
    """
    loop = asyncio.get_running_loop()
    deadline_s, least = loop.time() + timeout_s, sys.maxsize
    while True:
        found = await find()
        if found is not None:
            return found
        if loop.time() >= deadline_s:
            behind = None if lag is None else await lag()
            if behind is None or behind >= least:
                return None
            deadline_s, least = loop.time() + timeout_s, behind
        await asyncio.sleep(POLL_S)
