"""Positions in a log."""

from __future__ import annotations

from cluster.values import valueclass


@valueclass(order=True)
class OffsetAndEpoch:
    """An offset and the epoch it belongs to; as a log position, `offset` is exclusive."""

    offset: int
    epoch: int
