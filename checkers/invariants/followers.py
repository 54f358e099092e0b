"""Invariants of what a partition's leader knows of its followers, and does about it.

They read an event that no node traces (`harness/sim/follower_sight.py`), `led`: a partition by the
broker that leads it, as a `Lead`.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkers.invariants.fold import Broken, Invariant, Order
from checkers.invariants.sight import Fields


@dataclass(frozen=True, slots=True)
class Lead:
    """A partition by its leader's own account, beside what the world saw arrive."""

    name: str
    """As `topic-index`."""
    leader_epoch: int
    counted: frozenset[int]
    """Followers whose log end it claims to know."""
    heard: frozenset[int]
    """Followers that fetched since it leads, in its epoch, and whose log did not diverge."""
    has_epoch: bool
    """Whether its log says where its own leader epoch ends."""


class _OfFollowers(Invariant):
    order = Order.NONE
    unstored = "no trace holds what a leader knows of its followers"


class CountedByFetch(_OfFollowers):
    """A leader counts for a follower what that fetched from in this leadership, and agreed to.

    What it had when the leader led before, or what it has of a log that diverges, is not what the
    leader has now.
    """

    name = "counted-by-fetch"
    source = "KIP-101; KAFKA-13141"

    def on_led(self, node: str, fields: Fields) -> Broken | None:
        """Judge whom a leader counts."""
        lead: Lead = fields["lead"]
        unheard = sorted(lead.counted - lead.heard)
        if not unheard:
            return None
        return Broken(
            f"{node} leads {lead.name} in leader epoch {lead.leader_epoch} and counts what broker "
            f"{unheard[0]} has, which has not fetched since, or from where the logs differ"
        )


class OwnEpochKnown(_OfFollowers):
    """The log of a leader knows the leader's epoch: else it says of no follower where logs part."""

    name = "own-epoch-known"
    source = "KIP-101; KAFKA-20961"

    def on_led(self, node: str, fields: Fields) -> Broken | None:
        """Judge a leader's log."""
        lead: Lead = fields["lead"]
        if lead.has_epoch:
            return None
        return Broken(
            f"{node} leads {lead.name} in leader epoch {lead.leader_epoch}, of which its log does "
            f"not know where it begins"
        )


FOLLOWERS: tuple[type[Invariant], ...] = (CountedByFetch, OwnEpochKnown)
