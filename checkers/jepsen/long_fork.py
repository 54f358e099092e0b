"""Writes that two reads see in opposite orders (Jepsen's long-fork test).

An operation, by any name, has a list of steps: a write transaction is one step `["w", key, value]`,
a read transaction any number of `["r", key, value]`. Every key is written at most once, so a read
shows of each of its keys whether that write had been done: its value, or none (null, or the value
of option `initial`).

**Statement.** There is one order of all writes of which every read shows a beginning, as far as its
keys go: prefix consistency, which snapshot isolation implies and parallel snapshot isolation does
not. A read that shows x and lacks y puts the write of x before that of y. Such an order exists
exactly when these demands have no cycle: any order that extends them has every read's writes before
those that it lacks. (Proof: for a read, cut the order behind the last write that it shows. A write
of its keys that stands before the cut and that it lacks would have had to stand behind that last
write.) Jepsen compares reads of one set of keys in pairs, which finds cycles of two; here three
reads of overlapping keys contradict one another as well.

Nothing is demanded of real time but that no read shows a write that was not asked for yet, nor one
that failed or that nobody made.

O(reads x keys^2) for the demands, and a search in each cycle.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import islice
from typing import Any

from checkers.history import EventType, Operation
from checkers.jepsen.findings import Findings, UnreadableError
from checkers.transactions.operations import Edge
from checkers.transactions.search import in_components
from checkers.verdict import Anomaly, CheckResult, anomaly
from porcupine_py.search.outcome import Cancelled, never
from porcupine_py.search.wording import title
from porcupine_py.values import freeze, is_list, show

NAME = "long-fork"
OPTIONS: Mapping[str, type | tuple[type, ...]] = {
    "initial": (str, bool, int, float, list, tuple, dict)
}
_READS, _WRITES = frozenset({"r", "read"}), frozenset({"w", "write"})
Key = Hashable
Steps = list[tuple[str, Key, Hashable]]
_FORKS_MAX = 20
"""How many cycles are described, one for each set of keys that contradict one another."""


def check_key(
    operations: Sequence[Operation], options: Mapping[str, Any], cancelled: Cancelled = never
) -> CheckResult:
    """Judge the transactions of one history."""
    del cancelled  # a few passes
    found = Findings(NAME, "one order of writes in all reads", operations)
    unseen = {None, freeze(options.get("initial"))}
    try:
        writes, reads = _apart(operations)
    except UnreadableError as error:
        return found.unreadable(str(error))
    seen = [(read, {key: value not in unseen for _, key, value in steps}) for read, steps in reads]
    for read, steps in reads:
        found.wrong += _wrong_values(read, steps, writes, unseen)
    found.wrong += _forks(seen)
    compared = [keys for _, keys in seen if len(keys) > 1]
    found.counts = {
        "writes": len(writes),
        "reads": len(reads),
        "early_reads": sum(not any(keys.values()) for _, keys in seen),
        "late_reads": sum(all(keys.values()) for _, keys in seen),
    }
    return found.result(idle=None if compared else "no read of several keys was ok")


def _apart(
    operations: Sequence[Operation],
) -> tuple[dict[Key, tuple[Operation, Hashable]], list[tuple[Operation, Steps]]]:
    """Return the write of each key, and the reads that were answered."""
    writes: dict[Key, tuple[Operation, Hashable]] = {}
    reads: list[tuple[Operation, Steps]] = []
    for operation in operations:
        steps = _steps(operation)
        if all(f in _READS for f, _, _ in steps):
            if operation.type is EventType.OK:
                reads.append((operation, steps))
            continue
        if len(steps) != 1:
            problem = "is neither one write nor reads alone"
            raise UnreadableError(f"operation {operation.index} {problem}")
        ((_, key, value),) = steps
        if key in writes:
            other = writes[key][0].index
            problem = f"{show(key)} was written by operations {other} and {operation.index}"
            raise UnreadableError(f"{problem}: each key may be written once")
        writes[key] = operation, value
    return writes, reads


def _steps(operation: Operation) -> Steps:
    value = operation.output if operation.type is EventType.OK else operation.input
    if not is_list(value) or not all(
        is_list(s) and len(s) == 3 and s[0] in _READS | _WRITES for s in value
    ):
        raise UnreadableError(f"operation {operation.index}: {value!r} is no list of reads, writes")
    return [(str(f), freeze(key), freeze(read)) for f, key, read in value]


def _wrong_values(
    read: Operation,
    steps: Steps,
    writes: Mapping[Key, tuple[Operation, Hashable]],
    unseen: set[Hashable],
) -> list[Anomaly]:
    """Return what a read shows that no write can have put there, or two states at once."""
    wrong = []
    first: dict[Key, Hashable] = {}
    for _, key, value in steps:
        before = first.setdefault(key, value)
        if (before in unseen) != (value in unseen):
            what = f"{title(read)} shows {show(before)} and {show(value)} of {show(key)}"
            wrong.append(anomaly("non-repeatable-read", what, read))
        if value in unseen:
            continue
        writer, written = writes.get(key, (None, None))
        what = f"{title(read)} shows {show(value)} of {show(key)}, "
        if writer is None or written != value:
            wrong.append(anomaly("phantom", what + "which nobody wrote", read))
        elif writer.type is EventType.FAIL:
            what += f"which operation {writer.index} failed to write"
            wrong.append(anomaly("aborted-read", what, read, writer))
        elif writer.invoke_ns > read.complete_ns:
            what += f"which operation {writer.index} wrote only later"
            wrong.append(anomaly("future-read", what, read, writer))
    return wrong


def _forks(reads: Sequence[tuple[Operation, Mapping[Key, bool]]]) -> list[Anomaly]:
    """Return a shortest cycle of every set of keys whose writes are seen in a circle."""
    number: dict[Key, int] = {}
    demands: dict[tuple[int, int], Operation] = {}
    for read, keys in reads:
        for key in keys:
            number.setdefault(key, len(number))
        lacking = [number[key] for key, is_seen in keys.items() if not is_seen]
        for key, is_seen in keys.items():
            for later in lacking if is_seen else ():
                demands.setdefault((number[key], later), read)
    edges = [Edge(before, after, "ww", "") for before, after in demands]
    by_number = list(number)
    forks: list[Anomaly] = []
    for cycle in islice(in_components(edges, ("ww",)), _FORKS_MAX):
        involved = [demands[edge.source, edge.target] for edge in cycle]
        parts = [
            f"process {read.process} (operation {read.index}) saw the write of "
            f"{show(by_number[edge.source])} but not that of {show(by_number[edge.target])}"
            for edge, read in zip(cycle, involved, strict=True)
        ]
        circle = [show(by_number[edge.source]) for edge in cycle]
        all_ = "both" if len(parts) == 2 else "all of it"
        what = f"{'; '.join(parts)}: no order of these writes allows {all_}"
        forks.append(anomaly("long-fork", what, *involved, keys=circle))
    return forks
