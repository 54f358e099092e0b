"""Excuses for nodes that ended themselves because a fault failed their storage.

A fault that may end nodes (`may_end_node` of its injection) excuses the deaths of its targets from
the moment at which it acts until its heal. Its targets are known only once it has acted, and a
target may be dead by then; so a death during such an injection is judged after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cluster.backends.base import Backend, Death
from nemeses.base import Injection
from nemeses.registry import fault_named


@dataclass(slots=True)
class Excuse:
    """One injection that may end nodes."""

    since: Mapping[str, int]
    """Node -> incarnation when it began."""
    targets: frozenset[str] | None = None
    """None: not known yet."""
    until: Mapping[str, int] | None = None
    """Node -> incarnation when it was healed; None: it is in force."""

    def covers(self, death: Death) -> bool:
        """Whether it may have ended that incarnation of the node."""
        if self.targets is None or death.node not in self.targets:
            return False
        since = self.since[death.node]
        if self.until is None:
            return death.incarnation >= since
        # An incarnation that the heal started has met no fault. The incarnation that survived the
        # fault goes on, and may learn of a failed fsync only after the heal.
        return since <= death.incarnation < max(self.until[death.node], since + 1)


@dataclass(slots=True)
class Excuses:
    """All excuses of one run."""

    backend: Backend
    _all: list[Excuse] = field(default_factory=list)
    _by_injection: dict[object, Excuse] = field(default_factory=dict)
    _waiting: list[tuple[Death, Callable[[], None], Callable[[], None]]] = field(
        default_factory=list
    )

    def begin(self, fault: str) -> Excuse | None:
        """Open an excuse for a fault that is about to act, if it may end nodes."""
        if not getattr(fault_named(fault), "may_end_node", False):
            return None
        excuse = Excuse(self._incarnations())
        self._all.append(excuse)
        return excuse

    def set_targets(self, excuse: Excuse | None, injection: Injection) -> None:
        """Set the nodes that the fault hit, and judge the deaths that waited for them."""
        if excuse is None:
            return
        excuse.targets = frozenset(injection.targets)
        self._by_injection[injection.key] = excuse
        waiting, self._waiting = self._waiting, []
        for row in waiting:
            self.judge(*row)

    def end(self, injection: Injection) -> None:
        """End the excuse of a healed injection."""
        excuse = self._by_injection.pop(injection.key, None)
        if excuse is not None:
            excuse.until = self._incarnations()

    def judge(self, death: Death, excused: Callable[[], None], blamed: Callable[[], None]) -> None:
        """Call `excused` or `blamed`, as soon as the targets of all faults under way are known."""
        if any(excuse.covers(death) for excuse in self._all):
            excused()
        elif any(excuse.targets is None for excuse in self._all):
            self._waiting.append((death, excused, blamed))
        else:
            blamed()

    def _incarnations(self) -> dict[str, int]:
        return {node: self.backend.incarnation(node) for node in self.backend.nodes}
