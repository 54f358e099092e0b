"""Finds the leader of topic partitions from any node's metadata, for faults that aim at brokers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cluster.backends.base import Backend
from cluster.client.caller import Caller, CallFailed
from cluster.node.protocol.messages import MetadataRequest

ASK_TIMEOUT_MS = 400.0


async def partition_leader(backend: Backend, client: Caller) -> str | None:
    """Find the node that leads most topic partitions; the first of several.

    Asks one node after the other for the metadata of all topics until the answer names a leader;
    None when no answer does. The answer may be stale, as any client's metadata may.
    """
    everything = MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    for asked in backend.nodes:
        try:
            endpoint = backend.endpoint(asked, "CLIENT")
            leads = await client.ask(endpoint, everything, _leads, ASK_TIMEOUT_MS)
        except CallFailed:
            continue
        known = [node for node in backend.nodes if leads[node]]
        if known:
            return max(known, key=lambda node: leads[node])
    return None


def _leads(metadata: Any) -> Counter[str]:
    """Count the partitions that each node leads."""
    return Counter(
        f"n{partition.leader_id}"
        for topic in metadata.topics
        for partition in topic.partitions or ()
    )
