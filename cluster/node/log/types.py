"""Positions in a log, and the topic whose only partition is the log of metadata."""

from __future__ import annotations

import uuid
from typing import Final

from cluster.values import valueclass

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = uuid.UUID(int=1)
"""It never goes by another id (KIP-516)."""


@valueclass(order=True)
class OffsetAndEpoch:
    """An offset and the epoch it belongs to; as a log position, `offset` is exclusive."""

    offset: int
    epoch: int
