"""What an invariant is here: a fold over trace events, and what it may look at beside them.

An invariant reads the events of all nodes, one after the other, in any order (`Order.NONE`), in one
that respects each node's own (`Order.NODE`) or, beyond that, lets the cause of an event come before
it (`Order.CAUSE`). Its hooks (`on_state` is called for `state`, `on_epoch_start` for
`epoch-start`, `on_leader_hw` for `hw` with the role of a leader)
are called before the event changes the shared state (`checkers.invariants.quorum`), and return
what is broken, or None. They change nothing but what an invariant remembers for itself.

What this means for events that nobody kept (a stored trace may end early):

- `NONE` compares two things that were seen: whatever else happened, they contradict each other.
- `NODE` needs all that the event's own node did before: a trace that ends early still has that, one
  with a hole has not.
- `CAUSE` compares an event with facts that only grow, on any node: votes granted, offsets that were
  durable, offsets announced as committed. It accuses by what is *not* there, so it names the nodes
  of which more may have happened (`Broken.unseen`). That the facts only grow is also what makes it
  sound without clocks: see `checkers.invariants.merge`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from checkers.invariants.quorum import Quorum
from checkers.invariants.sight import Fields


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
    """The nodes that are involved; empty: the one whose event it is."""
    unseen: tuple[str, ...] = ()
    """Nodes of which more may have happened than was seen, and would make it right."""


class Invariant:
    """See the module. One object follows one run."""

    name: ClassVar[str]
    says: ClassVar[str]
    """The statement, as one clause."""
    source: ClassVar[str]
    """Theorem, paper, KIP or specification."""
    needs: ClassVar[str]
    """The events and fields that it reads, and whatever else it must see."""
    order: ClassVar[Order] = Order.NODE
    unstored: ClassVar[str] = ""
    """Why it cannot be judged from stored traces; empty where it can."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum


Hook = Callable[[str, Fields], Broken | None]
"""(node, fields of its event)."""


def hooks(invariant: Invariant) -> dict[str, Hook]:
    """Return the hooks of an invariant by the event that they are for."""
    prefix = "on_"
    return {
        name.removeprefix(prefix).replace("_", "-"): getattr(invariant, name)
        for name in sorted(dir(invariant))
        if name.startswith(prefix)
    }
