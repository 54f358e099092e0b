"""What an invariant is here: a fold over trace events, and over logs and disks where they are seen.

An invariant reads the events of all nodes in a sequence: any sequence (`Order.NONE`), one that
keeps each node's own order (`Order.NODE`), or one in which moreover the cause of an event comes
before it (`Order.CAUSE`). Its hooks (`on_state` is called for `state`, `on_epoch_start` for
`epoch-start`, `on_leader_hw` for a leader's `hw`) are called before the event changes the shared
state (`checkers.invariants.quorum`), and return what is broken, or None. A hook changes no state
but its invariant's own.

What this means for events that were not stored (a trace may end early):

- `NONE` compares two events that were stored: whatever else happened, they contradict each other.
- `NODE` needs every earlier event of the same node: a trace that ends early still has them, a trace
  with a hole has not.
- `CAUSE` compares an event with facts that only grow, on any node: votes granted, offsets that were
  durable, offsets announced as committed. It reports what is *missing*, so it names the nodes that
  may have done more than was stored (`Broken.unseen`). That the facts only grow is also what makes
  it sound without clocks: see `checkers.invariants.merge`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, cast, dataclass_transform

from checkers.invariants.quorum import Quorum
from checkers.invariants.sight import Fields, Sight


class Order(StrEnum):
    """The order of events that an invariant needs."""

    NONE = "any"
    NODE = "each node's own"
    CAUSE = "cause before effect"


@dataclass(frozen=True, slots=True)
class Broken:
    """What an invariant finds wrong with an event."""

    explanation: str
    nodes: tuple[str, ...] = ()
    """The nodes that are involved; empty: the node of the event."""
    unseen: tuple[str, ...] = ()
    """Nodes that may have done more than was seen, which would make the event right."""


Hook = Callable[[str, Fields], Broken | None]
"""Called with (node, fields of its event)."""
_PREFIX = "on_"
"""Begins the name of a hook."""


@dataclass_transform(eq_default=False, field_specifiers=(field,))
@dataclass(eq=False, repr=False)
class Invariant:
    """See the module. One object follows one run, and its fields are what it remembers."""

    quorum: Quorum
    name: ClassVar[str]
    source: ClassVar[str]
    """Theorem, paper, KIP or specification."""
    reads: ClassVar[frozenset[str]] = frozenset()
    """The events without which nothing of it can be judged, in a stored run or of another system
    in simulation; it uses others where there are any."""
    order: ClassVar[Order] = Order.NODE
    own: ClassVar[bool] = False
    """Whether it judges a node by that node's own events alone: then it can judge some nodes where
    others trace less."""
    unstored: ClassVar[str] = ""
    """Of those that a stored run is judged by (`watcher.INVARIANTS`): why not by this one."""

    def __init_subclass__(cls) -> None:
        if "__annotations__" in vars(cls):  # it has fields: each class that is made so takes time
            dataclass(eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        self.sight = cast("Sight", self.quorum.sight)
        """What a simulated world shows, for those that are judged there alone."""


def rule(event: str, source: str) -> Callable[[Hook], type[Invariant]]:
    """Make an invariant of a function that judges one kind of event by that event alone."""

    def make(judge: Hook) -> type[Invariant]:
        name = judge.__name__
        hook = f"{_PREFIX}{event.replace('-', '_')}"
        own = {hook: staticmethod(judge), "name": name.replace("_", "-"), "source": source}
        own |= {"__doc__": judge.__doc__, "__module__": judge.__module__}
        return type(name, (Invariant,), own)

    return make


def rules_of(module: str) -> tuple[type[Invariant], ...]:
    """Return the invariants of a module, in its order: there is none that nobody asks."""
    own = (each for each in vars(sys.modules[module]).values() if isinstance(each, type))
    rules = (each for each in own if issubclass(each, Invariant) and each.__module__ == module)
    return tuple(each for each in rules if hasattr(each, "name"))


def hooks(invariant: Invariant) -> dict[str, Hook]:
    """Return the hooks of an invariant by the name of their event."""
    return {
        name.removeprefix(_PREFIX).replace("_", "-"): getattr(invariant, name)
        for name in sorted(dir(invariant))
        if name.startswith(_PREFIX)
    }
