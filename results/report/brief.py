"""The first screen of a failed run's page: one sentence, and the answers to the first questions.

What broke, in a sentence that needs no knowledge of the checks; which node answered; who led;
which fault was on; how to repeat it. All of it is about the violation that the story leads to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from checkers.evidence.assisted import OPEN_END_NS
from checkers.history import EventType, Operation, seconds
from checkers.invariants.watcher import LIVE
from checkers.runs.faults import FaultSpan, Reign, active_between
from checkers.verdict import CheckResult, Status
from results.report.narration import value_text
from results.report.story import Story, subject_of

_FAULTS_MAX = 3
_REIGNS_MAX = 3
_KINDS = {
    "acknowledged-lost": "Acknowledged write lost",
    "acknowledged-missing": "Acknowledged record lost",
    "change-lost": "Acknowledged voter change lost",
    "change-uninvited": "Voters changed though nobody asked for it",
    "committed-lost": "Committed record lost",
    "committed-missing": "Committed record lost",
    "deaths-meant": "Node ended by itself",
    "damage-accepted": "Damaged file accepted",
    "elr-forgotten": "Eligible leader forgotten",
    "elr-kept": "Eligible leaders kept too long",
    "fenced-into-isr": "Fenced broker taken into the ISR",
    "hanging-transaction": "Transaction never ends",
    "lost-transaction": "Committed transaction lost",
    "lost-write": "Acknowledged record lost",
    "poll-skip": "Record skipped by a consumer",
    "stale-answer": "Answer from an old state",
    "torn-transaction": "Transaction torn",
    "truncated-committed": "Committed records cut off",
    "lost-committed": "Committed record lost",
    "duplicate": "Record stored twice",
    "inconsistent-offsets": "Two records at one offset",
    "stale-read": "Stale read",
    "zombie-commit": "Fenced producer committed",
}
_INVARIANTS = {kind.name for kind in LIVE}


def headline_of(checker: str, anomaly: Mapping[str, Any], operations: Sequence[Operation]) -> str:
    """Say in one sentence what was broken, with the user's own values."""
    kind, key = str(anomaly.get("kind", "violation")), subject_of(anomaly)
    if key is None and len({operation.key for operation in operations}) == 1:
        key = operations[0].key
    title = _KINDS.get(kind) or kind.replace("-", " ").capitalize()
    if checker == "invariants" or (checker == "monitor" and kind in _INVARIANTS):
        title = f"Invariant {kind} broken"
    explanation = str(anomaly.get("explanation", ""))
    said = _stale(operations) if kind == "stale-read" else None
    said = said or (_name_loss(operations) if kind == "acknowledged-lost" else None)
    said = said or (_old(anomaly, operations) if kind == "stale-answer" else None)
    if key is None or (said is None and explanation.startswith(f"{key} ")):  # its subject
        return f"{title}: {said or _plain(explanation, key)}"
    where = f" {'of' if kind == 'stale-read' else 'in'} {key}"
    return f"{title}{where}: {said or _plain(explanation.removeprefix(f'{key}: '), key)}"


def _stale(operations: Sequence[Operation]) -> str | None:
    """Name the read of a value, the write that replaced it, and who answered; None: not so plain.

    That the value was replaced is proved by an operation that began after one that shows the value
    had ended, showed another, and had ended before the read began.
    """
    done = [o for o in operations if o.type is EventType.OK and o.f in ("read", "write")]
    for read in reversed([o for o in done if o.f == "read"]):
        same = [o for o in done if o is not read and _value(o) == _value(read)]
        is_nothing = _value(read) is None  # there from the beginning, and never written
        since_ns = -1 if is_nothing else min((o.complete_ns for o in same), default=None)
        if since_ns is None:
            continue
        newer = [
            o
            for o in done
            if _value(o) != _value(read)
            and since_ns < o.invoke_ns
            and o.complete_ns < read.invoke_ns
        ]
        if newer:
            by = max(newer, key=lambda o: (o.f == "write", o.complete_ns))
            node = f" from {read.node}" if read.node else ""
            what = "nothing" if is_nothing else value_text(_value(read), 60)
            done_by = "replaced it" if not is_nothing else "been written"
            return (
                f"process {read.process} read {what}{node} "
                f"after {value_text(_value(by), 60)} had {done_by}"
            )
    return None


def _value(operation: Operation) -> object:
    return operation.output if operation.f == "read" else operation.input


def _name_loss(operations: Sequence[Operation]) -> str | None:
    """Name the value, who wrote it and which node acknowledged it."""
    for operation in operations:
        if operation.type is EventType.OK:
            node = f" by {operation.node}" if operation.node else ""
            return (
                f"{value_text(operation.input, 60)} of process {operation.process} was "
                f"acknowledged{node} at {seconds(operation.complete_ns, 3)}, and the log lacks it"
            )
    return None


def _old(anomaly: Mapping[str, Any], operations: Sequence[Operation]) -> str | None:
    """Name what was answered from which offset, and what had been committed by then."""
    answered, committed = anomaly.get("answered_offset"), anomaly.get("committed_offset")
    if not operations or answered is None or committed is None:
        return None
    read = operations[-1]
    return (
        f"process {read.process} read {value_text(read.output, 60)} from {read.node} as of offset "
        f"{answered}, though all up to offset {committed} was committed before it asked"
    )


_QUOTED = r"""(?<!\w)(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")(?!\w)"""
_ASIDES = (
    r"; faults (?:meanwhile|since): .*|, by the record at offset .*"
    rf"| \((?:{_QUOTED}|[^()])*+\)"  # no way back, of which an odd text would have very many
)


def _plain(explanation: str, key: object) -> str:
    """Return an explanation without what stands in brackets, faults and places.

    Values of the user, which are quoted, and the key keep theirs.
    """
    kept = f"{re.escape(str(key))}|{_QUOTED}" if key not in (None, "") else _QUOTED
    text = explanation.removeprefix("stale read: ")
    return re.sub(f"({kept})|{_ASIDES}", lambda found: found[1] or "", text, flags=re.DOTALL)


def brief_of(
    story: Story, checks: Sequence[CheckResult], ruled: Sequence[Reign], spans: Sequence[FaultSpan]
) -> list[tuple[str, str]]:
    """Return (question, answer) of the first screen; `ruled`: reigns over what it is about."""
    last = story.operations[-1] if story.operations else None
    begin_ns = story.end_ns if last is None else last.invoke_ns
    subject = subject_of(story.anomaly)
    of_key = (
        "" if subject is None else f", {'key' if 'key' in story.anomaly else 'partition'} {subject}"
    )
    others = [c.checker for c in checks if c.status is Status.FAIL and c.checker != story.check]
    node = story.anomaly.get("node") if last is None else last.node
    rows = [
        (
            "broken",
            f"{story.check}, {story.anomaly.get('kind')}{of_key}, at {seconds(story.end_ns, 3)}",
        ),
        ("node", _describe_answer(last, node)),
        ("leader", _leader(story, ruled, begin_ns, story.end_ns)),
        ("fault", _fault(spans, begin_ns, story.end_ns)),
    ]
    return [*rows, ("also failed", ", ".join(others))] if others else rows


def _describe_answer(last: Operation | None, node: object) -> str:
    if not node:
        return "not recorded"
    if last is None:
        return str(node)
    answer = "acknowledged" if last.output == last.input else "answered"
    if last.complete_ns >= OPEN_END_NS or last.type is not EventType.OK:
        answer = "was asked for"
    return f"{node} {answer} operation {last.index}, the last of the proof"


def _leader(story: Story, ruled: Sequence[Reign], begin_ns: int, end_ns: int) -> str:
    """Name who led from the beginning of the last operation of the proof to the violation."""
    kind = "metadata epoch" if story.partition is None else "leader epoch"
    over = "" if story.partition is None else f" of {story.partition}"
    active = [r for r in ruled if r.begin_ns <= end_ns and begin_ns <= r.end_ns]
    if not active:
        before = [reign for reign in ruled if reign.end_ns < begin_ns]
        last = f"; last {before[-1].node}, {kind} {before[-1].epoch}" if before else ""
        return f"none{over} is known at {seconds(begin_ns, 1)}{last}"
    left_out = len(active) - _REIGNS_MAX
    if left_out > 0:
        active = [active[0], *active[left_out + 1 :]]
    named = [
        f"{reign.node} ({kind} {reign.epoch}, from {seconds(reign.begin_ns, 1)} to "
        f"{seconds(reign.end_ns, 1)})"
        for reign in active
    ]
    if left_out > 0:
        named[0] += f", {left_out} more"
    overlap = any(
        one.node != other.node and one.begin_ns <= other.end_ns and other.begin_ns <= one.end_ns
        for one, other in combinations(active, 2)
    )
    return " and ".join(named) + over + (", at the same time" if overlap else "")


def _fault(spans: Sequence[FaultSpan], begin_ns: int, end_ns: int) -> str:
    active = [span for span in active_between(spans, begin_ns, end_ns) if span.verified]
    before = [span for span in spans if span.verified and span.begin_ns <= begin_ns]
    shown = active or before[-1:]
    if not shown:
        return "none had taken effect before"
    named = ", ".join(
        f"{span.name}" + (" on" if span.end_ns is None else f" to {seconds(span.end_ns, 3)}")
        for span in shown[:_FAULTS_MAX]
    )
    more = f" and {len(shown) - _FAULTS_MAX} more" if len(shown) > _FAULTS_MAX else ""
    return f"{named}{more}" if active else f"none then; the last before was {named}"
