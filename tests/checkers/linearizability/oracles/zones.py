"""The zones of `porcupine_py.search.clusters` with objects: their readable reference."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from checkers.history import EventType, Operation, seconds
from checkers.verdict import Status
from porcupine_py.models.registers import Register
from porcupine_py.search.outcome import Outcome, Window
from porcupine_py.values import freeze

_BEFORE_ALL_NS = -1
"""The initial value was written, and that write completed, before the first invocation."""


@dataclass(slots=True)
class _Cluster:
    value: Hashable
    write: Operation | None
    """None: the initial value, or one that nobody wrote."""
    reads: list[Operation] = field(default_factory=list)

    @property
    def operations(self) -> list[Operation]:
        return [self.write, *self.reads] if self.write else list(self.reads)

    def earliest(self) -> int:
        """f: the earliest completion, in nanoseconds."""
        completions = [operation.complete_ns for operation in self.operations]
        return min(completions) if self.write else _BEFORE_ALL_NS

    def latest(self) -> int:
        """s: the latest invocation, in nanoseconds."""
        return max(operation.invoke_ns for operation in self.operations)

    def extremes(self) -> list[int]:
        """Indexes of the write and of the operations that make f and s."""
        first = min(self.operations, key=lambda o: (o.complete_ns, o.index))
        last = max(self.operations, key=lambda o: (o.invoke_ns, o.index))
        ends = [last] if self.write is None else [self.write, first, last]
        return sorted({operation.index for operation in ends})


@dataclass(frozen=True, slots=True)
class _Zone:
    f: int
    s: int
    cluster: _Cluster

    @property
    def forward(self) -> bool:
        return self.f < self.s


def judge(operations: Sequence[Operation], model: Register) -> Outcome | None:
    """Judge the relevant operations of one key; None when writes are not unique.

    Knows `write` and `read` only: a compare-and-set makes it inapplicable too.
    """
    clusters = _clusters(operations, model)
    if clusters is None:
        return None
    for cluster in clusters:
        outcome = _wrong_inside(cluster, model)
        if outcome is not None:
            return outcome
    used = [c for c in clusters if c.reads or (c.write and c.write.type is EventType.OK)]
    zones = [_Zone(c.earliest(), c.latest(), c) for c in used]
    conflict = _conflict(zones)
    if conflict is not None:
        return _wrong_between(*conflict)
    zones.sort(key=lambda zone: (min(zone.f, zone.s), zone.forward))
    order = [operation.index for zone in zones for operation in _inner_order(zone.cluster)]
    explanation = (
        f"{len(zones)} clusters, {sum(z.forward for z in zones)} forward, none in conflict"
    )
    return Outcome(Status.PASS, explanation, linearization=tuple(order), explored=len(zones))


def _clusters(operations: Sequence[Operation], model: Register) -> list[_Cluster] | None:
    """Group by value; a cluster without write is the initial one or a phantom."""
    by_value: dict[Hashable, _Cluster] = {}
    for operation in operations:
        if operation.f not in {"read", "write"}:
            return None
        if operation.f == "write":
            value = freeze(operation.input)
            if value in by_value or value == model.initial:
                return None
            by_value[value] = _Cluster(value, operation)
    for operation in operations:
        if operation.f == "read":
            value = freeze(operation.output)
            by_value.setdefault(value, _Cluster(value, None)).reads.append(operation)
    return list(by_value.values())


def _wrong_inside(cluster: _Cluster, model: Register) -> Outcome | None:
    """Find a read of a value that nobody wrote, or that nobody had written yet."""
    if cluster.write is None:
        if cluster.value == model.initial or not cluster.reads:
            return None
        read = cluster.reads[0]
        description = f"operation {read.index} of process {read.process} read {read.output!r}"
        return _fail("phantom-read", f"{description}, which nobody wrote", [read.index])
    for read in cluster.reads:
        if read.complete_ns < cluster.write.invoke_ns:
            explanation = (
                f"operation {read.index} of process {read.process} read {read.output!r} and "
                f"completed before operation {cluster.write.index} began to write it"
            )
            return _fail("read-before-write", explanation, [read.index, cluster.write.index])
    return None


def _conflict(zones: Sequence[_Zone]) -> tuple[_Zone, _Zone] | None:
    """Find two clusters that must each come before the other, in O(n log n)."""
    forward = sorted((z for z in zones if z.forward), key=lambda z: (z.f, z.s))
    for left, right in pairwise(forward):
        if right.f < left.s:
            return left, right
    starts = [zone.f for zone in forward]
    for zone in zones:
        # Forward zones are disjoint here, so only the last that starts before can contain it.
        i = bisect_left(starts, zone.s) - 1
        if not zone.forward and i >= 0 and zone.f < forward[i].s:
            return forward[i], zone
    return None


def _wrong_between(left: _Zone, right: _Zone) -> Outcome:
    window = sorted({*left.cluster.extremes(), *right.cluster.extremes()})
    explanation = (
        f"the value {left.cluster.value!r} was in place by {seconds(left.f)} and at "
        f"{seconds(left.s)} or later, the value {right.cluster.value!r} by {seconds(right.f)} and "
        f"at {seconds(right.s)} or later: each must come before the other"
    )
    return _fail("stale-read", explanation, window)


def _fail(kind: str, explanation: str, window: Sequence[int]) -> Outcome:
    return Outcome(Status.FAIL, explanation, kind=kind, window=Window(tuple(window)))


def _inner_order(cluster: _Cluster) -> list[Operation]:
    reads = sorted(cluster.reads, key=lambda read: (read.invoke_ns, read.index))
    return [cluster.write, *reads] if cluster.write else reads
