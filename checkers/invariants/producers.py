"""Invariants of what idempotent producers are answered, by which they know that nothing is lost.

They read events that no node traces (`harness/sim/sights/answers.py`): `sequences-asked`, a batch
with sequences comes to a node, which is to acknowledge it for all in sync, and `sequences-answer`,
what it answers. `number` stands for one request.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from checkers.invariants.fold import Broken, Invariant, rules_of
from checkers.invariants.sight import Fields

_REMEMBERED: Final = 5
"""Batches of a producer that a leader knows again, which is as many as may be in flight."""


@dataclass(slots=True)
class _Sent:
    """What a producer has sent to a partition."""

    batches: list[tuple[int, int]] = field(default_factory=list)
    """First sequences, and the next one behind each, ascending."""
    takers: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    """By batch: the nodes that have acknowledged it, and in which of their reigns."""
    acknowledged: list[int] = field(default_factory=list)
    """First sequences, ascending."""
    offsets: dict[int, int] = field(default_factory=dict)
    """Where these are."""


@dataclass(slots=True)
class _Partition:
    """What clients know of a partition."""

    sent: defaultdict[tuple[int, int], _Sent] = field(default_factory=lambda: defaultdict(_Sent))
    """By producer and its epoch."""
    reigns: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By node that has led it: how often it may have ceased to."""

    def end_reigns(self, leader: str | None) -> None:
        """Note that no other than this node leads."""
        for node in self.reigns:
            self.reigns[node] += node != leader


class SequencesTaken(Invariant):
    """A leader takes a batch that follows one that it has acknowledged, and one that it has again.

    It knows the last five batches of a producer. If it may have started or followed since it
    acknowledged the one before, it may know but the very last one: a snapshot holds no more. And
    what is acknowledged of a producer lies in the order of its sequences, each at one offset.
    """

    name = "sequences-taken"
    source = "KIP-98; ProducerStateManager.java; KAFKA-5494"

    _partitions: defaultdict[str, _Partition] = field(
        default_factory=lambda: defaultdict(_Partition)
    )
    _owed: dict[int, str] = field(default_factory=dict)
    """By request that must be taken: why."""

    def on_start(self, node: str, fields: Fields) -> None:
        for partition in self._partitions.values():
            partition.reigns[node] += 1

    def on_sequences_asked(self, node: str, fields: Fields) -> None:
        """Find out whether a leader must take a batch, as it comes to it."""
        partition = self._partitions[fields["partition"]]
        sent = partition.sent[fields["producer"]]
        batch = fields["first"], fields["next"]
        if batch not in sent.batches:
            insort(sent.batches, batch)
        place = sent.batches.index(batch)
        later = sent.batches[place + 1 :]
        before = sent.batches[place - 1] if place else (-1, -1)
        reign = sent.takers.get(before, {}).get(node)
        if reign is None or before[1] != batch[0] or any(other[0] == batch[0] for other in later):
            return
        goes_on = reign == partition.reigns[node]
        if not later or (goes_on and len(later) < _REMEMBERED):
            self._owed[fields["number"]] = f"sequences {before[0]} to {before[1] - 1}"

    def on_sequences_answer(self, node: str, fields: Fields) -> Broken | None:
        """Judge what became of it."""
        partition, error = self._partitions[fields["partition"]], fields["error"]
        before = self._owed.pop(fields["number"], None)
        first, offset = fields["first"], fields["offset"]
        what = f"sequences {first} to {fields['next'] - 1} of producer {fields['producer'][0]}"
        if error == "out_of_order_sequence_number" and before is not None:
            return Broken(
                f"{node} refuses {what} in {fields['partition']}, and has acknowledged {before}"
            )
        if error != "none":
            partition.reigns[node] += 1
            return None
        sent = partition.sent[fields["producer"]]
        partition.end_reigns(node)
        takers = sent.takers.setdefault((first, fields["next"]), {})
        takers[node] = partition.reigns[node]
        if first not in sent.offsets:
            insort(sent.acknowledged, first)
            sent.offsets[first] = offset
        place = bisect_left(sent.acknowledged, first)
        around = sent.acknowledged[max(0, place - 1) : place + 2]
        for early, late in pairwise(around):
            if sent.offsets[early] >= sent.offsets[late]:
                return Broken(
                    f"{node} acknowledges {what} in {fields['partition']}: sequence {early} is at "
                    f"offset {sent.offsets[early]}, and sequence {late} at {sent.offsets[late]}"
                )
        if sent.offsets[first] != offset:
            return Broken(
                f"{node} acknowledges {what} in {fields['partition']} at offset {offset}, which "
                f"had been acknowledged at {sent.offsets[first]}"
            )
        return None


PRODUCERS = rules_of(__name__)
