"""Offsets of groups that are committed in transactions: they share the transaction's fate (KIP-98).

A step `["commit", key, offset]` of a transaction commits an offset of the group for that key, and
an operation `offsets` looks up what the group has committed, with require_stable (KIP-447): not
before every transaction that commits an offset there is decided, and carried out there. Offsets are
unique in the run. So each lookup must show the offset of a transaction that may have committed, and
none that is behind: offsets that are committed and looked up are a linearizable register, as the
last one that was appended holds, and nothing is shown while one is undecided.

One that ended in `info` may have committed, at any time. A coordinator that a fault stopped or cut
off answers until it knows that it was deposed, and may be behind. O(n log n).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from checkers.history import INFINITY_NS, Event, EventType, HistoryError, Operation, seconds
from checkers.linearizability import linearizable
from checkers.runs.faults import HEAL, FaultSpan, active_between, fault_spans, phases
from checkers.verdict import Anomaly, Status, anomaly
from porcupine_py.values import is_list

COMMIT = "commit"
OFFSETS = "offsets"
"""Name of the step, and of the operation."""
NONE_COMMITTED = -1
_DEPOSING = frozenset({"pause", "partition", "loss", "delay", "bandwidth", "hold"})
"""Faults that keep from a node, which lives, that another one coordinates."""
_UNAWARE_NS = 10_000_000_000
"""For so long behind them: it has to hear of the metadata since."""


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset that a transaction committed, or would have."""

    offset: int
    operation: Operation
    may_hold: bool
    """Whether it may have committed."""
    holds: bool
    """Whether it was acknowledged as committed."""


Commits = Mapping[str, Sequence[Commit]]


def without_commits(operation: Operation) -> Operation:
    """Return a transaction by what it read and appended alone."""
    kept = [_other_steps(steps) for steps in (operation.input, operation.output)]
    return replace(operation, input=kept[0], output=kept[1])


def _other_steps(steps: object) -> object:
    if not is_list(steps):
        return steps
    return [step for step in steps if not (is_list(step) and step and step[0] == COMMIT)]


def commits_of(operation: Operation) -> Iterator[tuple[str, int]]:
    """Yield key and offset of each commit of a transaction. Raises HistoryError."""
    for step in operation.input if is_list(operation.input) else ():
        if is_list(step) and step and step[0] == COMMIT:
            if len(step) != 3 or type(step[2]) is not int:
                raise HistoryError(f"operation {operation.index}: no commit of an offset: {step}")
            yield str(step[1]), step[2]


def lookups_of(operations: Sequence[Operation]) -> Iterator[tuple[str, int, Operation]]:
    """Yield key and offset of each answered lookup. Raises HistoryError."""
    for operation in operations:
        if operation.f != OFFSETS or operation.type is not EventType.OK:
            continue
        for step in operation.output if is_list(operation.output) else ():
            if not is_list(step) or len(step) != 3 or type(step[2]) is not int:
                raise HistoryError(f"operation {operation.index}: no offset: {step}")
            yield str(step[1]), step[2], operation


def offset_anomalies(
    commits: Commits, operations: Sequence[Operation], notes: Sequence[Event]
) -> Iterator[Anomaly]:
    """Find lookups that show what was aborted, what is behind, or what nobody committed.

    `notes` of the nemesis say who may have been deposed. Raises HistoryError where that is not
    decided.
    """
    faults = [span for span in fault_spans(notes) if span.fault in _DEPOSING]
    heal_ns = dict(phases(notes)).get(HEAL, INFINITY_NS)
    by_offset = {(key, commit.offset): commit for key, group in commits.items() for commit in group}
    reads: dict[str, list[Operation]] = {}
    reported: set[tuple[str, str]] = set()
    for key, offset, lookup in lookups_of(operations):
        kind, why, other = _judge(by_offset.get((key, offset)), offset, lookup)
        if not kind and (lookup.invoke_ns >= heal_ns or not _is_deposed(lookup, faults)):
            read = replace(lookup, f="read", key=key, input=None, output=offset)
            reads.setdefault(key, []).append(read)
        if not kind or (key, kind) in reported:
            continue
        reported.add((key, kind))
        what = (
            f"the group for {key} shows offset {offset} at {seconds(lookup.invoke_ns)} "
            f"(operation {lookup.index}), {why}"
        )
        yield anomaly(kind, what, lookup, *((other.operation,) if other else ()))
    for key, group in commits.items():
        yield from _losses(key, group, reads.get(key, []))


def _is_deposed(lookup: Operation, faults: Sequence[FaultSpan]) -> bool:
    """Whether the node that answered may have been cut off, or stopped, a moment before."""
    begin_ns = lookup.invoke_ns - _UNAWARE_NS
    active = active_between(faults, begin_ns, lookup.complete_ns)
    return any(lookup.node in fault.targets for fault in active)


def _judge(shown: Commit | None, offset: int, lookup: Operation) -> tuple[str, str, Commit | None]:
    """Return the kind of what is wrong with a lookup, why, and the commit that it contradicts."""
    if shown is None and offset != NONE_COMMITTED:
        return "phantom-offset", "which nobody committed", None
    if shown is not None and not shown.may_hold:
        why = f"which operation {shown.operation.index} was to commit, whose transaction did not"
        return "aborted-offset", why, shown
    if shown is not None and shown.operation.invoke_ns > lookup.complete_ns:
        why = f"which operation {shown.operation.index} committed later"
        return "phantom-offset", why, shown
    return "", "", None


def _losses(key: str, group: Sequence[Commit], reads: Sequence[Operation]) -> Iterator[Anomaly]:
    """Judge the offset of a group as a register: transactions write it, lookups read it."""
    writes = []
    for commit in group:
        access = replace(commit.operation, f="write", key=key, input=commit.offset, output=None)
        if not commit.holds:
            access = replace(access, type=EventType.INFO, complete_ns=INFINITY_NS)
        writes += [access] if commit.may_hold else []
    accesses = sorted([*writes, *reads], key=lambda each: (each.invoke_ns, each.index))
    result = linearizable.check_key(accesses, {"model": "register", "initial": NONE_COMMITTED})
    if result.status is Status.UNKNOWN:
        raise HistoryError(result.summary)
    for found in result.anomalies:
        what = (
            f"the offset of the group for {key}, which transactions commit and lookups show: "
            f"{found['explanation']}"
        )
        operations = sorted(each["index"] for each in found["window"])
        yield anomaly("lost-offset", what, operations=operations)
