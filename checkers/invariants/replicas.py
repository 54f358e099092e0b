"""Invariants of partitions' high watermarks, ISRs and followers, over what a simulated world shows.

They read events that no node traces (`harness/sim/sights/replicas.py`). `high-watermark`: what a
leader calls committed, beside the ends of all replicas' logs and what the newest committed metadata
say of the partition, in a `Led`. `led`: what a leader knows of its followers, beside what the world
saw arrive, in a `Lead`. `isr-proposal`: a leader's AlterPartition arrives at a controller, as a
`Proposal`. `isr-change`: a leader has no answer to a change that it asked for and does not wait for
it, with the leader and partition epochs in which it asked and which it knows. `isr-lag`: a member
of the ISR lacks what its leader had a while ago, and for how long it has.

A leader may know less than the metadata. Within its leader epoch nobody but itself asks to enlarge
its ISR, one change at a time, and it counts a member from when it asks: so whatever the newest ISR
of that epoch is, the leader has counted each of its members, or knows of the change that took one
in. What it knows beyond the metadata that are shown cannot be judged.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from checkers.invariants.fold import Broken, Invariant, rule, rules_of
from checkers.invariants.sight import Fields, node_name

_SLACK_MS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Led:
    """A partition by the broker that leads it, and by the newest committed metadata."""

    key: Hashable
    name: str
    """As `topic-index`."""
    incarnation: int
    """Of the leader's process."""
    high_watermark: int
    leader_epoch: int
    partition_epoch: int
    """The newest of which the leader knows."""
    decided: tuple[int, int]
    """Leader and partition epoch by the metadata."""
    isr: tuple[int, ...]
    """By the metadata."""
    isr_min: int
    """min.insync.replicas, at most the number of replicas."""
    ends: Mapping[int, int]
    """Log end by id, of brokers that run and are registered as the metadata have it."""


@dataclass(frozen=True, slots=True)
class Lead:
    """What a partition's leader knows of its followers, beside what the world saw arrive."""

    name: str
    """As `topic-index`."""
    leader_epoch: int
    counted: frozenset[int]
    """Followers whose log end it claims to know."""
    heard: frozenset[int]
    """Followers that fetched since it leads, in its epoch, and whose log did not diverge."""
    has_epoch: bool
    """Whether its log says where its own leader epoch ends, and that it began as the leader did."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of an ISR that a leader asks for."""

    name: str
    leader_epoch: int
    ago_ms: Mapping[int, float]
    """Member that is to leave, and lags by the leader's account -> when the leader saw it caught
    up before it asked, so long ago."""
    lag_max_ms: float
    """replica.lag.time.max.ms"""
    epoch_start: int
    """Where the leader epoch begins in its leader's log."""
    reached: Mapping[int, int]
    """Member that is to come in -> up to where it fetched in this leader epoch; -1: it did not."""


@rule("high-watermark", "KIP-497, maximal ISR; KIP-966")
def held_in_sync(node: str, fields: Fields) -> Broken | None:
    """All members of the ISR hold what their leader calls committed.

    Where the leader does not know yet that one of them is a member, too: it asked for it.

    Judge a leader of the epoch that the metadata have, which knows no more than they.
    """
    led: Led = fields["partition"]
    if led.decided[0] != led.leader_epoch or led.decided[1] < led.partition_epoch:
        return None
    for member in led.isr:
        end = led.ends.get(member, led.high_watermark)
        if end < led.high_watermark:
            return Broken(
                f"{node} leads {led.name} in leader epoch {led.leader_epoch} and calls "
                f"everything below {led.high_watermark} committed, and the log of broker "
                f"{member}, a member of the ISR {list(led.isr)}, ends at {end}",
                (node, node_name(member)),
            )
    return None


class EnoughInSync(Invariant):
    """Nothing is committed while the ISR is below min.insync.replicas, whatever the acks.

    A replica may leave an ISR that is so small and remain electable, as nothing that it lacks is
    committed. Judged where the leader knew of that ISR from one look to the next.
    """

    name = "enough-in-sync"
    source = "KIP-966"

    _before: dict[tuple[str, Hashable], Led] = field(default_factory=dict)

    def on_high_watermark(self, node: str, fields: Fields) -> Broken | None:
        """Judge what moved since the last look, if nothing else has changed."""
        led: Led = fields["partition"]
        before = self._before.get((node, led.key))
        self._before[node, led.key] = led
        if before is None or led.high_watermark <= before.high_watermark:
            return None
        known = led.leader_epoch, led.partition_epoch
        same = (before.incarnation, before.leader_epoch, before.partition_epoch)
        if same != (led.incarnation, *known) or led.decided != known:
            return None
        if len(led.isr) >= min(before.isr_min, led.isr_min):
            return None
        return Broken(
            f"{node} leads {led.name} in leader epoch {led.leader_epoch} and moves its high "
            f"watermark from {before.high_watermark} to {led.high_watermark}, with "
            f"{list(led.isr)} in sync where min.insync.replicas is {led.isr_min}"
        )


@rule("isr-proposal", "KIP-16")
def lag_allowed(node: str, fields: Fields) -> Broken | None:
    """No replica is taken out of the ISR that had all its leader had, not long ago.

    By the leader's clock, from when a Fetch at the end of its log arrived, in the same leader epoch
    and while no earlier change was on its way; what the leader was asked without such a Fetch, and
    how long its request took, only lengthen the time.
    """
    proposal: Proposal = fields["proposal"]
    for member, ago_ms in proposal.ago_ms.items():
        if ago_ms <= proposal.lag_max_ms:
            return Broken(
                f"{node} leads {proposal.name} in leader epoch {proposal.leader_epoch} and "
                f"takes broker {member} out of the ISR, which had caught up {ago_ms:.1f} ms "
                f"before, where replica.lag.time.max.ms is {proposal.lag_max_ms:g}",
                (node, node_name(member)),
            )
    return None


@rule("isr-lag", "KIP-16, maybeShrinkIsr")
def lag_ends(node: str, fields: Fields) -> Broken | None:
    """A replica that lags for too long is asked to leave the ISR: else nothing is committed by it.

    A leader looks twice in `replica.lag.time.max.ms`. It may ask in vain, and ask again.
    """
    for_ms, lag_max_ms = fields["for_ms"], fields["lag_max_ms"]
    if for_ms <= 1.5 * lag_max_ms + _SLACK_MS:
        return None
    return Broken(
        f"{node} leads {fields['name']} in leader epoch {fields['leader_epoch']} and keeps "
        f"broker {fields['follower']} in the ISR, which has lacked for {for_ms:.1f} ms what "
        f"the leader had, where replica.lag.time.max.ms is {lag_max_ms:g}",
        (node, node_name(fields["follower"])),
    )


@rule("isr-proposal", "KAFKA-7128")
def joins_in_epoch(node: str, fields: Fields) -> Broken | None:
    """A replica comes into the ISR once its log reaches the start of its leader's epoch.

    A new leader may know of less that is committed than there is: one that has just that may lack
    what was acknowledged before.
    """
    proposal: Proposal = fields["proposal"]
    for member, reached in proposal.reached.items():
        if reached < proposal.epoch_start:
            return Broken(
                f"{node} leads {proposal.name} in leader epoch {proposal.leader_epoch}, which "
                f"begins at {proposal.epoch_start}, and takes broker {member} into the ISR, "
                f"which has fetched from {reached} at most since",
                (node, node_name(member)),
            )
    return None


@rule("isr-change", "KIP-497, maximal ISR")
def change_awaited(node: str, fields: Fields) -> Broken | None:
    """A leader waits for a change of its ISR until it is answered, or the metadata have another.

    The controller may have made it: whom it took in is waited for from when the leader asked. What
    the metadata say of the partition as it was then decides nothing.
    """
    asked, known = fields["asked"], fields["known"]
    if asked != known:
        return None
    return Broken(
        f"{node} leads {fields['name']} in leader epoch {known[0]}, has no answer to the "
        f"change of its ISR that it asked for in partition epoch {known[1]}, the newest that "
        "it knows, and goes on as if it had not asked"
    )


@rule("led", "KIP-101; KAFKA-13141")
def counted_by_fetch(node: str, fields: Fields) -> Broken | None:
    """A leader counts for a follower what that fetched from in this leadership, and agreed to.

    What it had when the leader led before, or what it has of a log that diverges, is not what the
    leader has now.
    """
    lead: Lead = fields["lead"]
    unheard = sorted(lead.counted - lead.heard)
    if not unheard:
        return None
    return Broken(
        f"{node} leads {lead.name} in leader epoch {lead.leader_epoch} and counts what broker "
        f"{unheard[0]} has, which has not fetched since, or from where the logs differ"
    )


@rule("led", "KIP-101; KAFKA-20961")
def own_epoch_known(node: str, fields: Fields) -> Broken | None:
    """The log of a leader knows the leader's epoch: else it says of no follower where logs part.

    And it knows that from where the leader began: until it reaches that, nobody joins the ISR.
    """
    lead: Lead = fields["lead"]
    if lead.has_epoch:
        return None
    return Broken(
        f"{node} leads {lead.name} in leader epoch {lead.leader_epoch}, of which its log does "
        f"not know where the leader began"
    )


REPLICATION = rules_of(__name__)
