"""Finds the leader of topic partitions from any node's metadata, for faults that aim at brokers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cluster.backends.base import Backend
from cluster.client.caller import Caller, CallFailed, metadata_of

ASK_TIMEOUT_MS = 400.0


async def partition_leader(backend: Backend, client: Caller) -> str | None:
    """Find the node that leads most topic partitions; the first of several.

    Asks one node after the other for the metadata of all topics until the answer names a leader;
    None when no answer does. The answer may be stale, as any client's metadata may.
    """
    for asked in backend.nodes:
        try:
            endpoint = backend.endpoint(asked, "CLIENT")
            leads = await client.ask(endpoint, metadata_of(None), _leads, ASK_TIMEOUT_MS)
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
