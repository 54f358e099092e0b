"""What a check of a whole run is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checkers.evidence import Evidence
from checkers.extent import WHOLE, Extent
from checkers.history import Event, Operation

Cancelled = Callable[[], bool]
"""Asked regularly by every check that may take long; True makes it end in UNKNOWN."""


def never() -> bool:
    """Cancel nothing."""
    return False


@dataclass(frozen=True, slots=True)
class RunInput:
    """A run as its store holds it."""

    events: Sequence[Event]
    """The whole journal, nemesis events included, in index order."""
    operations: Sequence[Operation]
    """`history.pair(events)`: client operations in order of invocation."""
    evidence: Evidence | None = None
    """What the nodes left behind, as far as the journal covers it (`checkers.extent.within`); None
    for a history that came without it."""
    extent: Extent = WHOLE
    """How far the journal reaches."""
