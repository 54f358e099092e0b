"""Where times are on a page: all different times of a history in equal steps, in their order."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from porcupine_py.history import ranks
from porcupine_py.linearization import LinearizationInfo, PartInfo

STEP_PX_MIN, STEP_PX_MAX = 40, 120
"""Bounds of the width of a step; between them a drawing is as wide as a screen."""
SCREEN_PX = 1200
GAP_PX = 6
"""Free at the end of each step, so that what returns and what is called next do not touch."""
LABEL_PX = 96
"""Width of the rows' names."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Times of the whole history, so that all parts can be compared."""

    rank: dict[float, int]

    @classmethod
    def of(cls, info: LinearizationInfo) -> Scale:
        """Take in every time of operations."""
        times = {time for part in info.parts for time in ranks(part.operations)}
        return cls({time: rank for rank, time in enumerate(sorted(times))})

    @property
    def step_px(self) -> float:
        """Width of a step."""
        wanted = (SCREEN_PX - LABEL_PX) / (len(self.rank) + 1)
        return round(min(STEP_PX_MAX, max(STEP_PX_MIN, wanted)), 1)

    def begin(self, time: float) -> float:
        """Return where the step of a time begins, in pixels from the left."""
        return LABEL_PX + self.step_px * self.rank[time]

    def end(self, time: float | None) -> float:
        """Return where the step of a time ends; None: never, the right edge.

        A step has a width, so that what returns at the time of a call overlaps with it on the
        page as it does for the checker.
        """
        if time is None:
            return self.width
        return self.begin(time) + self.step_px - GAP_PX

    @property
    def width(self) -> float:
        """Width of a drawing in pixels."""
        return LABEL_PX + self.step_px * (len(self.rank) + 1)

    def points(self, part: PartInfo, order: Sequence[int]) -> list[float]:
        """Return where the operations of an order take effect, from left to right.

        Each does so in the step of the latest call so far. That is not before its own call, and
        not after its return either: an order that places it behind an operation which was called
        after this return would break real time.
        """
        calls = (self.rank[part.operations[position].call] for position in order)
        points: list[float] = []
        for rank, group in groupby(accumulate(calls, max)):
            together = len(list(group)) + 1
            left, width = LABEL_PX + self.step_px * rank, self.step_px - GAP_PX
            points += [round(left + width * k / together, 1) for k in range(1, together)]
        return points


TEXT_MAX = 300
"""Characters of a text that the page shows."""


def escape(text: str) -> str:
    """Return a text for HTML or SVG, in an element or a quoted attribute.

    Characters that no XML document may hold, and halves of surrogate pairs, which no encoding of
    Unicode can write, are shown as U+FFFD.
    """
    return html.escape(shorten(text))


def shorten(text: str) -> str:
    """Return at most TEXT_MAX characters, an ellipsis for the rest, that can be written."""
    if len(text) > TEXT_MAX:
        text = text[: TEXT_MAX - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return "".join(c if _writable(c) else "\N{REPLACEMENT CHARACTER}" for c in text)


def _writable(c: str) -> bool:
    return c in "\t\n" or (c >= " " and not "\x7f" <= c <= "\x9f" and not "\ud800" <= c <= "\udfff")
