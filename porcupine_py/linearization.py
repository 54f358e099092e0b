"""What a verbose check found, for people and for `porcupine_py.visualize`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from porcupine_py.history import Operation
from porcupine_py.judging import Part

_COLOR = re.compile(r"#(?:[0-9a-fA-F]{3,4}){1,2}|[a-zA-Z]{1,30}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A remark in the visualisation, in the row of a client or in a row of its own by `tag`.

    Raises ValueError for one that belongs nowhere, or has a colour that is neither `#1a2b3c` nor a
    name.
    """

    client_id: int | None = None
    tag: str = ""
    """Name of its row: a server, the test framework. Used instead of `client_id`."""
    start: float
    """In the unit of the operations' times."""
    end: float | None = None
    """None, or before `start`: a point in time."""
    description: str
    details: str = ""
    """Shown with the description when it is pointed at."""
    text_color: str = ""
    background_color: str = ""

    def __post_init__(self) -> None:
        if self.client_id is None and not self.tag:
            raise ValueError("an annotation needs a client_id or a tag")
        for color in (self.text_color, self.background_color):
            if color and not _COLOR.fullmatch(color):
                raise ValueError(f"{color!r:.60} is not a colour: #rgb, #rrggbb or a name")


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
    annotations: list[Annotation] = field(default_factory=list)

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

    def add_annotations(self, annotations: Iterable[Annotation]) -> None:
        """Add remarks to the visualisation."""
        self.annotations.extend(annotations)

    def partial_linearizations(self) -> list[list[list[int]]]:
        """Return for each part the partial linearizations that were found, the longest first.

        Numbers are positions in the part: for events, calls in their order.
        """
        return [[list(order) for order in part.partials] for part in self.parts]

    def partial_linearizations_operations(self) -> list[list[list[Operation[Any, Any]]]]:
        """Return the same with the operations themselves."""
        return [
            [[part.operations[i] for i in order] for order in part.partials] for part in self.parts
        ]
