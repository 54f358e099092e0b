"""Who leads topic partitions, as any node tells: for faults that aim at brokers."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from cluster.backends.base import Backend
from cluster.client import CallFailed
from cluster.ports import Endpoint
from cluster.protocol.messages import MetadataRequest

ASK_TIMEOUT_MS = 400.0


class AnyClient(Protocol):
    """The part of `cluster.client.Client` that asks."""

    async def call(
        self, endpoint: Endpoint, message: object, timeout_ms: float | None = None
    ) -> Any:
        """Return the response; raises CallFailed."""


async def partition_leader(backend: Backend, client: AnyClient) -> str | None:
    """Find the node that leads most topic partitions; of equals the first.

    Asks one node after the other for the metadata of all topics until one tells of a leader; None
    when nobody does. What is told may be stale, as every client's metadata may.
    """
    everything = MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    for asked in backend.nodes:
        try:
            endpoint = backend.endpoint(asked, "CLIENT")
            response = await client.call(endpoint, everything, ASK_TIMEOUT_MS)
        except CallFailed:
            continue
        leads = Counter(
            f"n{partition.leader_id}"
            for topic in response.topics
            for partition in topic.partitions or ()
        )
        known = [node for node in backend.nodes if leads[node]]
        if known:
            return max(known, key=lambda node: leads[node])
    return None
