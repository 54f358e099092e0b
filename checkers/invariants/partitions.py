"""Invariants of what leaders, followers and controllers owe a partition at once.

They read events that no node traces (`harness/sim/partition_sight.py`): `isr-answer`, a controller
agrees to an AlterPartition, with the partition epoch that was asked for and the one that it knew to
be committed when it was asked; `held`, a leader's high watermark and up to where all have the log
that it waits for; `fetch-waits`, a follower's Fetch that waits; `remembered`, up to where a log
goes, and the last batch that it remembers of any idempotent producer; `producer-answer`, the
sequences of a batch and of those that its leader remembers when it answers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from checkers.invariants.fold import Broken, Invariant, Order
from checkers.invariants.sight import Fields

_SEQUENCE_MAX: Final = 2**31 - 1


class _OfPartitions(Invariant):
    unstored = "no trace holds what brokers know of replicas"
    order = Order.NONE


class NewestChanged(_OfPartitions):
    """An ISR is changed by a request that knows the newest partition epoch, and by no other."""

    name = "newest-changed"
    source = "KIP-497, CheckVersion"

    def on_isr_answer(self, node: str, fields: Fields) -> Broken | None:
        """Judge what a controller agrees to."""
        if fields["asked"] >= fields["known"]:
            return None
        return Broken(
            f"{node} let {fields['leader']} change the ISR of {fields['name']} by a request of "
            f"partition epoch {fields['asked']}, when {fields['known']} was committed"
        )


class HeldCommitted(_OfPartitions):
    """What the ISR holds is committed at once: an ISR that has shrunk waits for nobody else."""

    name = "held-committed"
    source = "KIP-16; KAFKA-13091"

    def on_held(self, node: str, fields: Fields) -> Broken | None:
        """Judge a leader's high watermark."""
        if fields["high_watermark"] >= fields["held"]:
            return None
        return Broken(
            f"{node} leads {fields['name']} and calls what lies below {fields['high_watermark']} "
            f"committed, while its ISR holds all below {fields['held']}"
        )


class FetchAnswered(_OfPartitions):
    """No Fetch of a follower waits when its leader has more than the follower asked from."""

    name = "fetch-answered"
    source = "KIP-227, replica.fetch.min.bytes"

    def on_fetch_waits(self, node: str, fields: Fields) -> Broken | None:
        """Judge a Fetch that waits still."""
        if fields["log_end"] <= fields["offset"]:
            return None
        return Broken(
            f"{node} leads {fields['name']} up to {fields['log_end']} and lets broker "
            f"{fields['follower']} wait, which asks for what lies at {fields['offset']}"
        )


class RememberedInLog(_OfPartitions):
    """What a replica remembers of producers is in its log: the rest is no duplicate."""

    name = "remembered-in-log"
    source = "KIP-98"

    def on_remembered(self, node: str, fields: Fields) -> Broken | None:
        """Judge what a replica remembers."""
        if fields["remembered_end"] <= fields["log_end"]:
            return None
        return Broken(
            f"{node} holds {fields['name']} up to {fields['log_end']} and takes what a producer "
            f"sent up to {fields['remembered_end']} for what it has"
        )


class Sequences(_OfPartitions):
    """A producer's batches follow one another in a log, and those remembered are not refused.

    Of a producer that a log does not know any sequence is taken; from there on the next one alone.
    """

    name = "sequences"
    source = "KIP-98; KAFKA-5494"

    def on_producer_answer(self, node: str, fields: Fields) -> Broken | None:
        """Judge an answer to an idempotent producer."""
        held = fields["held"]
        at = f"{node} leads {fields['name']} and"
        for (_, last), (first, _) in pairwise(held):
            if first != (last + 1) & _SEQUENCE_MAX:
                return Broken(
                    f"{at} took sequence {first} of producer {fields['producer']} behind {last}"
                )
        if fields["error"] == "out_of_order_sequence_number" and fields["asked"] in held:
            first, last = fields["asked"]
            return Broken(
                f"{at} refused sequences {first} to {last} of producer {fields['producer']}, "
                "though it remembers that batch"
            )
        return None


PARTITIONS: tuple[type[Invariant], ...] = (
    NewestChanged,
    HeldCommitted,
    FetchAnswered,
    RememberedInLog,
    Sequences,
)
