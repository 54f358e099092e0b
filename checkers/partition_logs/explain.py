"""Anomalies of logs as a person reads them: producer, offset, epoch, node, operations, faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checkers.history import INFINITY_NS, EventType, Operation, seconds
from checkers.partition_logs.columns import NONE
from checkers.partition_logs.facts import Facts
from checkers.partition_logs.rules import Found
from checkers.runs.faults import FaultSpan, active_between, named_faults
from checkers.verdict import Anomaly, anomaly

FAULTS_MAX = 4
"""How many faults an explanation names."""


@dataclass(frozen=True, slots=True)
class _Case:
    """One row of what a rule found, with its operations."""

    facts: Facts
    operations: Sequence[Operation]
    kind: str
    record: int
    other: int
    offset: int
    read: Operation | None
    before: Operation | None

    @property
    def send(self) -> Operation | None:
        return self.send_of(self.record)

    @property
    def shown_by(self) -> Operation:
        """The read that shows what is wrong."""
        assert self.read is not None, "this anomaly has a read"
        return self.read

    def send_of(self, record: int) -> Operation | None:
        """Return the send of a record; None where there is none."""
        if not 0 <= record < self.facts.log.records:
            return None
        return self.operations[int(self.facts.log.sends.row[self.facts.send[record]])]

    def value(self, record: int) -> str:
        return repr(self.facts.log.values[record])

    def send_text(self, record: int) -> str:
        """Say which record it is, and what became of its send."""
        send = self.send_of(record)
        if send is None:
            return f"{self.value(record)}, which nobody sent there"
        by = f"{self.value(record)} of producer {send.process!r} ({_name(send)}, "
        if send.type is not EventType.OK:
            outcome = (
                "without an answer" if send.type is EventType.INFO else f"failed: {send.error}"
            )
            return f"{by}{outcome})"
        asked = int(self.facts.asked[record])
        at = f" at offset {asked}" if asked != NONE and send.offset is not None else ""
        # A later leader may have acknowledged it, of whose epoch the producer did not know yet.
        reign = f", leader epoch {send.epoch} or later" if send.epoch is not None else ""
        return f"{by}acknowledged{at}{_by(send)} at {seconds(send.complete_ns, 3)}{reign})"


def explain(
    found: Found,
    row: int,
    facts: Facts,
    operations: Sequence[Operation],
    faults: Sequence[FaultSpan],
) -> Anomaly:
    """Return one anomaly: kind, explanation, key, operations, offset, producer, epoch, node."""
    case = _case(found, row, facts, operations)
    involved = [case.send, case.send_of(case.other), case.before, case.read]
    there = [operation for operation in involved if operation is not None]
    begin_ns = min(operation.invoke_ns for operation in there)
    last = max(there, key=lambda operation: operation.invoke_ns)
    # An operation without an answer ends with the run, which would name every fault of it.
    end_ns = last.complete_ns if last.complete_ns < INFINITY_NS else last.invoke_ns
    active = active_between(faults, begin_ns, end_ns)
    log = facts.log
    key = next((operation.key for operation in there if operation.key is not None), None)
    if key is None:  # a member of a group polls several partitions
        key = log.partitions[int(log.reads.partition[found.read[row]])]
    named = [f"{f.fault} of {', '.join(f.targets) or 'the cluster'}" for f in active[:FAULTS_MAX]]
    explanation = f"{key}: {_SENTENCES[found.kind](case)}"
    if active:
        explanation += f"; faults meanwhile: {named_faults(active, FAULTS_MAX)}"
    witness = case.send or case.read
    assert witness is not None, "every anomaly has a record or a read"
    fields = {
        "offset": None if case.offset == NONE else case.offset,
        "producer": None if case.send is None else case.send.process,
        "epoch": witness.epoch,
        "node": (case.read or witness).node,
        "faults": named,
    }
    known = {name: value for name, value in fields.items() if value not in (None, [])}
    return anomaly(found.kind, explanation, *there, key=key, **known)


def _case(found: Found, row: int, facts: Facts, operations: Sequence[Operation]) -> _Case:
    reads = facts.log.refused if found.kind == "truncated" else facts.log.reads
    read, before = int(found.read[row]), int(found.before[row])
    return _Case(
        facts,
        operations,
        found.kind,
        int(found.record[row]),
        int(found.other[row]),
        int(found.offset[row]),
        None if read == NONE else operations[int(reads.row[read])],
        None if before == NONE else operations[int(facts.log.reads.row[before])],
    )


def _name(operation: Operation) -> str:
    return f"operation {operation.index}"


def _by(operation: Operation) -> str:
    return f" by {operation.node}" if operation.node else ""


def _read(operation: Operation | None) -> str:
    """Name a read, the node and the epoch that answered, and when."""
    assert operation is not None, "this anomaly has a read"
    reign = f" in leader epoch {operation.epoch}" if operation.epoch is not None else ""
    consumer = f"consumer {operation.process!r}"
    answered = f"answered{_by(operation)}{reign} at {seconds(operation.complete_ns, 3)}"
    return f"{operation.f} {operation.index} of {consumer} ({answered})"


def _explain_loss(case: _Case) -> str:
    facts, read = case.facts, case.shown_by
    shown = facts.seen_read[case.record]
    why = ""
    if shown != NONE:
        first = case.operations[int(facts.log.reads.row[shown])]
        why = f", and read by {_read(first)},"
    elif case.kind == "lost-committed" and facts.marked_ns[facts.send[case.record]] < INFINITY_NS:
        why = ", and below the high watermark of its leader,"
    elif case.kind == "lost-committed":
        why = ", with another record of its batch that was read,"
    text = f"{case.send_text(case.record)}{why} is not in the whole log as read by {_read(read)}"
    here = [value for offset, value in read.output["records"] if offset == case.offset]
    if here:
        text += f"; offset {case.offset} there holds {here[0]!r}"
    if case.kind == "lost-write" and facts.promise.acks != "all":
        text += "; no later epoch has led since it was acknowledged, so no truncation explains it"
    return text


def _explain_copy(case: _Case) -> str:
    lower = int(case.facts.shown_at[case.record])
    return (
        f"{case.send_text(case.record)} stands at offset {lower}, by {_read(case.before)}, and at "
        f"offset {case.offset}, by {_read(case.read)}"
    )


def _two_values(case: _Case) -> str:
    def describe_read(record: int, read: Operation | None) -> str:
        return case.send_text(record) + (f" as read by {_read(read)}" if read is not None else "")

    first, then = describe_read(case.other, case.before), describe_read(case.record, case.read)
    return f"offset {case.offset} holds {first} and {then}"


def _order(case: _Case) -> str:
    first, later = case.send_of(case.record), case.send_of(case.other)
    assert first is not None
    if case.read is not None:
        sent = seconds(first.invoke_ns, 3)
        return (
            f"{case.send_text(case.record)} stands at offset {case.offset}, and was only sent at "
            f"{sent}, after {_read(case.read)} gave {_mark(case.read)} as high watermark"
        )
    assert later is not None
    below = int(case.facts.place[case.other])
    when = f"only sent at {seconds(later.invoke_ns, 3)}, after that"
    who = "the same producer" if first.process == later.process else f"producer {later.process!r}"
    seen = case.facts.seen_read[case.record]
    proof = ""
    if first.complete_ns >= later.invoke_ns and seen != NONE:
        proof = f", read by {_read(case.operations[int(case.facts.log.reads.row[seen])])},"
    return (
        f"{case.send_text(case.record)} stands at offset {case.offset}{proof} behind "
        f"{case.value(case.other)} of {who} at offset {below} ({_name(later)}), which was {when}"
    )


def _skip(case: _Case) -> str:
    return (
        f"{_read(case.read)} passed over offset {case.offset}, where {case.send_text(case.record)} "
        "stands, and showed records behind it"
    )


def _disorder(case: _Case) -> str:
    return (
        f"{_read(case.read)} shows {case.value(case.record)} at offset {case.offset} behind "
        f"{case.value(case.other)}, at an offset that is not lower"
    )


def _below_position(case: _Case) -> str:
    read = case.shown_by
    asked = "where its last poll had ended" if read.input is None else f"offset {read.input}"
    return f"{_read(read)} asked from {asked} and shows offset {case.offset}, without a seek"


def _explain_truncation(case: _Case) -> str:
    read, shown_at = case.shown_by, case.offset - 1
    reign = f" in leader epoch {read.epoch}"
    refused = f"poll {read.index} from offset {case.offset} was refused{_by(read)}{reign} as out of"
    return f"{refused} range, though {_read(case.before)} had shown a record at {shown_at} or up"


def _mark(read: Operation) -> int:
    mark: int = read.output["high_watermark"]
    return mark


def _shown_before(case: _Case) -> str:
    before = case.before
    assert before is not None, "something was read before"
    if any(offset == case.offset for offset, _ in before.output["records"]):
        return f"{_read(before)} shows offset {case.offset}"
    return f"{_read(before)} gives {_mark(before)} as high watermark"


def _lower_mark(case: _Case) -> str:
    mark = _mark(case.shown_by)
    return (
        f"; afterwards, in the same epoch, {_read(case.read)} gives {mark} as high watermark, "
        "so it was not committed"
    )


_SENTENCES: dict[str, Callable[[_Case], str]] = {
    "lost-write": _explain_loss,
    "lost-committed": _explain_loss,
    "allowed-loss": _explain_loss,
    "duplicate": _explain_copy,
    "inconsistent-offsets": _two_values,
    "moved": lambda c: f"{c.send_text(c.record)} was read at offset {c.offset} by {_read(c.read)}",
    "torn-batch": lambda c: (
        f"{c.send_text(c.record)} was read at offset {c.offset} by {_read(c.read)}, which is not "
        f"its place behind {c.value(c.other)} of the same batch, at offset "
        f"{int(c.facts.shown_at[c.other])}"
    ),
    "phantom": lambda c: (
        f"{_read(c.read)} shows at offset {c.offset} {c.value(c.record)}, which nobody sent there"
    ),
    "aborted-read": lambda c: f"{_read(c.read)} shows at offset {c.offset} {c.send_text(c.record)}",
    "read-before-send": lambda c: (
        f"{_read(c.read)} shows at offset {c.offset} {c.send_text(c.record)} before it was sent"
    ),
    "nonmonotonic-send": _order,
    "real-time": _order,
    "poll-skip": _skip,
    "int-poll-skip": _skip,
    "int-nonmonotonic-poll": _disorder,
    "nonmonotonic-poll": _below_position,
    "truncated": _explain_truncation,
    "dirty-read": lambda c: f"{_shown_before(c)}{_lower_mark(c)}",
    "dirty-ack": lambda c: f"{c.send_text(c.record)}{_lower_mark(c)}",
    "log-start-moved": lambda c: (
        f"the log begins at offset {c.offset} by {_read(c.read)}, though nothing may be deleted"
    ),
}
