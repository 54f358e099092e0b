"""Positions in a log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class OffsetAndEpoch:
    """An offset and the epoch it belongs to; as a log position, `offset` is exclusive."""

    offset: int
    epoch: int
