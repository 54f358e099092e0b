"""What a verbose check found, for people and for `porcupine_py.visualize`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from porcupine_py.history import Operation
from porcupine_py.judging import Part


@dataclass(frozen=True, slots=True)
class PartInfo:
    """What is known of one part of a history."""

    operations: tuple[Operation[Any, Any], ...]
    legal: bool | None
    """None: a bound was met first."""
    partials: tuple[tuple[int, ...], ...]
    """Partial linearizations, the longest first: positions in `operations`, in order. Of a legal
    part the whole linearization, in which a pending operation is left out that need not have
    happened."""


@dataclass(slots=True)
class LinearizationInfo:
    """What a verbose check found, part by part."""

    parts: tuple[PartInfo, ...]
    limit: str | None = None
    """On UNKNOWN: which bound was met."""

    @classmethod
    def of(cls, parts: Sequence[Part], limit: str | None) -> LinearizationInfo:
        """Gather what was found."""
        gathered = (
            PartInfo(
                part.operations,
                part.legal,
                () if part.longest is None else tuple(part.longest.orders()),
            )
            for part in parts
        )
        return cls(tuple(gathered), limit)

    def partial_linearizations(self) -> list[list[list[int]]]:
        """Return for each part the partial linearizations that were found, the longest first.

        Numbers are positions in the part: for events, calls in their order.
        """
        return [[list(order) for order in part.partials] for part in self.parts]
