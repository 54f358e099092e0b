"""Whether every answer of a node could be read: the answers that made no sense, as evidence.

A client that gets a *wrong answer* (bytes that are no such response, no result or several for one
question, an ok about something else than was asked, values that cannot be) goes on: the operation
ends in `info`, with an error that begins with `wrong-answer`. What the harness asks for itself
(the leader, the final reads) is journaled as an event `wrong-answer` of the nemesis, with `node`
and `explanation`.

Any of these: UNKNOWN. That the client is right has no second witness, as an order of operations or
a log has, and a newer node may know what the client does not. An operation whose client did not
return, with an error that begins with `HUNG`, is an `info` that changes no verdict; a note says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkers.history import Event, EventType
from checkers.history.recorded import failures, tally
from checkers.run_input import RunInput
from checkers.verdict import CheckResult, Status, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "answers"
WRONG_ANSWER = "wrong-answer"
"""Begins the errors; `f` of the events."""
HUNG = "client-did-not-return: ended after"
"""Begins the errors of operations that the harness ended."""
_KEPT_MAX = 20


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Collect the wrong answers of a journal."""
    del options, cancelled
    wrong = list(_wrong(run))
    counts = Counter[EventType]()
    for (_, ended), count in tally(run.operations).items():
        counts[ended] += count
    summary = "every answer could be read"
    if not counts[EventType.OK] + counts[EventType.FAIL]:
        summary = "no operation was answered: there was nothing to read"
    elif unanswered := counts[EventType.INFO]:
        summary += f"; {unanswered} operations ended without an answer"
    if wrong:
        summary = f"{len(wrong)} answers made no sense; the first: {wrong[0]}"
    return CheckResult(
        NAME,
        Status.UNKNOWN if wrong else Status.PASS,
        summary,
        operations=len(run.operations),
        anomalies=tuple(anomaly(WRONG_ANSWER, explanation) for explanation in wrong[:_KEPT_MAX]),
        statistics={"wrong_answers": len(wrong), **_notes(failures(run.events, HUNG))},
    )


def _notes(ended: Sequence[Event]) -> dict[str, Any]:
    if not ended:
        return {}
    processes = len({event.process for event in ended})
    what = f"{len(ended)} operations did not return and were ended as info, their clients replaced"
    return {
        "clients_hung": len(ended),
        "notes": [f"{what} ({processes} processes; the first: {ended[0].process}, {ended[0].f})"],
    }


def _wrong(run: RunInput) -> Iterator[str]:
    answered = failures(run.events, WRONG_ANSWER)
    asked = [note for note in run.notes if note.f == WRONG_ANSWER and note not in answered]
    for event in sorted([*answered, *asked], key=lambda event: event.index):
        if event.error is not None and event.error.startswith(WRONG_ANSWER):
            node: Any = event.node
            what: Any = event.error.removeprefix(f"{WRONG_ANSWER}: ")
        elif isinstance(event.value, dict):
            node, what = event.value.get("node"), event.value.get("explanation")
        else:
            continue
        yield f"{node or 'a node'} at {event.time_ns / 1e9:.3f} s: {what}"
