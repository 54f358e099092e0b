"""Invariants of what a partition's leader knows of its followers, and does about it.

They read two events that no node traces (`harness/sim/follower_sight.py`). `led`: a partition by
the broker that leads it, as a `Lead`. `isr-changed`: a leader is answered that its AlterPartition
was taken.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from checkers.invariants.fold import Broken, Invariant, Order
from checkers.invariants.quorum import Quorum
from checkers.invariants.sight import Fields


@dataclass(frozen=True, slots=True)
class Lead:
    """A partition by its leader's own account, beside what the world saw arrive."""

    key: Hashable
    name: str
    """As `topic-index`."""
    incarnation: int
    """Of the leader's process."""
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    """The maximal one: with those that a proposal on its way would let in."""
    end_offset: int
    high_watermark: int
    due: int
    """The end of the shortest log among those that it waits for."""
    counted: frozenset[int]
    """Followers whose log end it claims to know."""
    heard: frozenset[int]
    """Followers that fetched since it leads, in its epoch, and whose log did not diverge."""
    proposed: frozenset[int]
    """Members of the ISRs that a controller was asked for in these two epochs, unless it answered
    that it has not taken and will not take them."""
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


class ProposalKept(_OfFollowers):
    """A leader counts those that it asks into the ISR until it knows what became of that.

    The controller may have taken them, whatever became of the answer.
    """

    name = "proposal-kept"
    source = "KIP-497, maximal ISR"

    def on_led(self, node: str, fields: Fields) -> Broken | None:
        """Judge by whom a leader goes."""
        lead: Lead = fields["lead"]
        missed = sorted(lead.proposed - set(lead.isr))
        if not missed:
            return None
        return Broken(
            f"{node} leads {lead.name} in leader epoch {lead.leader_epoch} and goes by the ISR "
            f"{list(lead.isr)}, though it asked a controller for broker {missed[0]} in partition "
            f"epoch {lead.partition_epoch} and was not refused"
        )


class CommittedOnceHeld(_OfFollowers):
    """What all that it waits for have is committed, by the next look at the same state."""

    name = "committed-once-held"
    source = "KAFKA-13091"

    def __init__(self, quorum: Quorum) -> None:
        super().__init__(quorum)
        self._before: dict[tuple[str, Hashable], Lead] = {}

    def on_led(self, node: str, fields: Fields) -> Broken | None:
        """Judge where its high watermark is."""
        lead: Lead = fields["lead"]
        before, self._before[node, lead.key] = self._before.get((node, lead.key)), lead
        if lead.due <= lead.high_watermark or before != lead:
            return None
        return Broken(
            f"{node} leads {lead.name} in leader epoch {lead.leader_epoch}, and its high watermark "
            f"stays at {lead.high_watermark} though all that it waits for have all below {lead.due}"
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


class IsrOfItsEpoch(_OfFollowers):
    """A controller changes an ISR by a request that was made of the present one."""

    name = "isr-of-its-epoch"
    source = "KIP-497, partition epoch"

    def on_isr_changed(self, node: str, fields: Fields) -> Broken | None:
        """Judge an answer."""
        asked, known = fields["partition_epoch"], fields["known_epoch"]
        if asked >= known:
            return None
        return Broken(
            f"{node} changed the ISR of {fields['name']} by a request of partition epoch {asked}, "
            f"when that was {known} already"
        )


FOLLOWERS: tuple[type[Invariant], ...] = (
    CountedByFetch,
    ProposalKept,
    CommittedOnceHeld,
    OwnEpochKnown,
    IsrOfItsEpoch,
)
