"""What may be hooked on what happens in a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.values import valueclass

TraceFields = dict[str, Any]


@valueclass
class TraceMatch:
    """Which trace events are meant; None matches all. JSON-able."""

    event: str | None = None
    node: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def accepts(self, node: str, event: str, fields: TraceFields) -> bool:
        """Whether this event is meant."""
        return (
            (self.event is None or self.event == event)
            and (self.node is None or self.node == node)
            and all(name in fields and fields[name] == v for name, v in self.fields.items())
        )


@dataclass(slots=True, eq=False)
class Trigger:
    """Something that is to be done at the n-th event of a kind; once."""

    act: Callable[[], None]
    remaining: int
    done: bool = False

    def count(self) -> None:
        """Count one event, and act if it is the one."""
        if not self.done:
            self.remaining -= 1
            if self.remaining <= 0:
                self.done = True
                self.act()

    def cancel(self) -> None:
        """Never act."""
        self.done = True
