"""How far a run's journal reaches, and which of the nodes' evidence lies within it.

The harness journals the run's phases, and of what the nodes left it journals, once they are down,
that it was collected. A journal that ends before, because the harness was killed, its disk was full
or the file was cut, is the journal of a *prefix* of the run. What that allows:

- *Operations.* An invocation is journaled before it is sent and a completion after it was received,
  so what a completed operation of the prefix observed was invoked in the prefix. A prefix of a
  linearizable history, its open operations being indeterminate, is linearizable (Herlihy and Wing
  1990; the same holds of the session guarantees and of cycles of transactions): FAIL remains FAIL.
- *Values that nobody wrote* (a phantom), topics without a create or gone without a deletion: the
  missing rest may hold the operation. Never FAIL.
- *An acknowledged write that is gone* stays FAIL: written values are unique, so no later operation
  brings an older one back.
- *Traces* count up to the journal's last event: what a node does after its harness died, when its
  disk may be taken from under it, is no evidence. A trace has the node's monotonic clock; the
  journal says by which clock it runs and when it began, and the `start` of each process by which
  the trace runs (`Evidence.run_ns`). A trace by another clock cannot be placed and is left out.
- *Logs* count below the highest high watermark that was announced by then; the quorum-state file,
  which nodes replace in place, not at all. That the final logs lack what was committed, or a voter
  change that was answered, is no finding: a fault that was not healed may have taken it.
- *Nodes with failed storage* may have been hit by a fault, or by a full disk that they share with
  the harness, that the journal did not come to say. An invariant that broke stays FAIL.

What a check cannot accuse for one of these reasons is a *doubt*: it makes the check UNKNOWN, and is
shown. And a run with a journal that ends before the final reads never passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from checkers.evidence import FINAL_READS, PHASE, WORLD_CLOCK, Evidence, TraceEvent, run_clock
from checkers.history import Event, EventType, seconds
from checkers.history.recorded import end_of, statements

COLLECTED = "evidence"
"""Note that the nodes are down and what they left was collected: the last of a whole journal."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What of a run its journal covers."""

    end_ns: int = 0
    """Time of its last event; -1: there is none."""
    closed: bool = True
    """Whether it holds all operations: clients had ended when its last event was written."""
    finished: bool = True
    """Whether all was healed and the final reads were taken."""
    outlived: bool = False
    """Whether nodes may have run on when nobody watched them any more."""
    pending: bool = False
    """Whether a fault was being injected, to what effect is not known."""

    @property
    def shortcoming(self) -> str:
        """Say what is missing; empty where nothing is."""
        if self.finished:
            return ""
        if self.closed:
            return "the run was broken off before its final reads"
        if self.end_ns < 0:
            return "the journal is empty, so nothing is known of the run"
        return (
            f"the journal ends at {seconds(self.end_ns)}, in the middle of the run: the harness "
            "was killed, its disk was full, or the file was cut"
        )


WHOLE = Extent()
"""That of a run about which everything is known."""


def extent_of(events: Sequence[Event]) -> Extent:
    """Read from a journal how far it reaches."""
    notes = list(statements(events))
    closed = any(note.f == PHASE and note.value.get("name") == "stop" for note in notes)
    collected = any(note.f == COLLECTED for note in notes)
    clock = run_clock(events)
    simulated = clock is not None and clock.name == WORLD_CLOCK  # its nodes end with the harness
    return Extent(
        end_ns=end_of(events),
        closed=closed,
        finished=closed and any(note.f == FINAL_READS for note in notes),
        outlived=not closed or not (collected or simulated),
        pending=_pending(notes, closed=closed),
    )


def _pending(notes: Sequence[Event], *, closed: bool) -> bool:
    """Whether an injection had begun and not ended, or another attempt of one that failed.

    An entry of a schedule is journaled when it is asked for and when it has ended, a step of a
    script, whose name is a text, when it has ended: a script that was broken off may have been in
    the middle of another step.
    """
    asked: set[object] = set()
    injecting: set[object] = set()
    healing: set[object] = set()
    for note in notes:
        entry, phase = note.value.get("entry"), note.value.get("phase")
        if not isinstance(entry, int | str):  # a sweep, or what was left when the run healed all
            continue
        begins = note.type is EventType.INVOKE
        if isinstance(entry, str):
            if not closed:
                return True
        elif phase == "inject":
            asked |= {entry} if begins else set()
            (injecting.add if begins else injecting.discard)(entry)
        elif phase == "heal" and begins:
            healing.add(entry)
        elif phase == "heal" and entry in healing:
            healing.discard(entry)
        elif phase == "heal" and entry in asked:
            # Nobody asked for this heal: an attempt failed, and another one follows.
            injecting.add(entry)
    return bool(injecting)


def within(evidence: Evidence, extent: Extent) -> tuple[Evidence, list[str]]:
    """Return the part of the evidence that the journal covers, and why more is left out."""
    if not extent.outlived:
        return evidence, []
    traces: dict[str, Sequence[TraceEvent]] = {}
    problems = []
    for node, trace in evidence.traces.items():
        placed = _until(evidence, trace, extent.end_ns)
        if placed is None:
            problems.append(
                f"{node}: its trace cannot be placed in time: it runs by another clock than the "
                "journal, which ends early"
            )
        else:
            traces[node] = placed
    committed = replace(evidence, traces=traces).announced_end()
    logs = {
        node: [record for record in log if record.offset < committed]
        for node, log in evidence.logs.items()
    }
    return replace(
        evidence, traces=traces, logs=logs, quorum_states={}, partition_logs={}
    ), problems


def _until(evidence: Evidence, trace: Sequence[TraceEvent], end_ns: int) -> list[TraceEvent] | None:
    """Return the events up to the journal's end; None where one before it cannot be placed."""
    kept: list[TraceEvent] = []
    for event in trace:
        time_ns = evidence.run_ns(event)
        if time_ns is None:
            return None
        if time_ns > end_ns:
            break
        kept.append(event)
    return kept
