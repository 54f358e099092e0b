"""Acting at a chosen event of a simulated world: which event, and the trigger that counts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.values import valueclass

TraceFields = dict[str, Any]


@valueclass
class TraceMatch:
    """Which trace events match; None matches all. JSON-able."""

    event: str | None = None
    node: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def accepts(self, node: str, event: str, fields: TraceFields) -> bool:
        """Whether this event matches."""
        return (
            (self.event is None or self.event == event)
            and (self.node is None or self.node == node)
            and all(name in fields and fields[name] == v for name, v in self.fields.items())
        )


@dataclass(slots=True, eq=False)
class Trigger:
    """Calls `act` at the n-th event that is counted, once."""

    act: Callable[[], None]
    remaining: int
    done: bool = False

    def count(self) -> None:
        """Count an event, and act if it is the n-th."""
        if not self.done:
            self.remaining -= 1
            if self.remaining <= 0:
                self.done = True
                self.act()

    def cancel(self) -> None:
        """Never act."""
        self.done = True
