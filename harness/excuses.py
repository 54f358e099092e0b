"""Whether a node that ended by itself had to: a fault had failed its storage.

A fault that may end nodes (`may_end_node` of its injection) excuses the deaths of its targets from
the moment at which it acts until its heal. Which nodes it hits is known only when it has acted, and
one of them may be dead by then; so deaths while such a fault is under way wait for it.
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
        """Whether it may have ended that life of the node."""
        if self.targets is None or death.node not in self.targets:
            return False
        since = self.since[death.node]
        if self.until is None:
            return death.incarnation >= since
        # A life that began by the heal has met no fault; one that the fault did not end goes on,
        # and may still learn of an fsync that had failed.
        return since <= death.incarnation < max(self.until[death.node], since + 1)


@dataclass(slots=True)
class Excuses:
    """Everything that may have ended nodes in one run."""

    backend: Backend
    _all: list[Excuse] = field(default_factory=list)
    _by_injection: dict[object, Excuse] = field(default_factory=dict)
    _waiting: list[tuple[Death, Callable[[], None], Callable[[], None]]] = field(
        default_factory=list
    )

    def begin(self, fault: str) -> Excuse | None:
        """Note that a fault is about to act."""
        if not getattr(fault_named(fault), "may_end_node", False):
            return None
        excuse = Excuse(self._incarnations())
        self._all.append(excuse)
        return excuse

    def acted(self, excuse: Excuse | None, injection: Injection) -> None:
        """Note whom it hit."""
        if excuse is None:
            return
        excuse.targets = frozenset(injection.targets)
        self._by_injection[injection.key] = excuse
        waiting, self._waiting = self._waiting, []
        for row in waiting:
            self.judge(*row)

    def healed(self, injection: Injection) -> None:
        """Note that it is over."""
        excuse = self._by_injection.pop(injection.key, None)
        if excuse is not None:
            excuse.until = self._incarnations()

    def judge(self, death: Death, excused: Callable[[], None], blamed: Callable[[], None]) -> None:
        """Call the one or the other, once it is known."""
        if any(excuse.covers(death) for excuse in self._all):
            excused()
        elif any(excuse.targets is None for excuse in self._all):
            self._waiting.append((death, excused, blamed))
        else:
            blamed()

    def _incarnations(self) -> dict[str, int]:
        return {node: self.backend.incarnation(node) for node in self.backend.nodes}
