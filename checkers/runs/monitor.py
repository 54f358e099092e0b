"""What a monitor inside the run saw: violations that the journal itself reports.

A simulated world is watched at every event, which no check of what is left afterwards can match.
What was seen is journaled as an event `violation` of the nemesis, with `property`, `explanation`
and `causes`. None: PASS. An expectation of a script that was open when the faults ended, or that
the script had not come to, is journaled as `undecided`, and makes it UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkers.history import seconds
from checkers.history.recorded import statements
from checkers.run_input import RunInput
from checkers.verdict import CheckResult, Status
from porcupine_py.search.outcome import Cancelled, never

NAME = "monitor"
VIOLATION = "violation"
"""`f` of the events."""
UNDECIDED = "undecided"
"""`f` of the events of expectations, with `place` and `that`."""


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Collect the violations of a journal."""
    del options, cancelled
    anomalies = []
    for event in statements(run.notes, VIOLATION):
        fields = {key: event.value.get(key) for key in ("property", "explanation", "causes")}
        fields["explanation"] = f"{fields['explanation']}, at {seconds(event.time_ns)}"
        place = {"kind": str(fields["property"]), "at_ns": event.time_ns}
        anomalies.append({**place, **fields})
    status, summary = Status.PASS, "nothing was violated while it ran"
    if anomalies:
        status = Status.FAIL
        summary = f"{anomalies[0]['property']}: {anomalies[0]['explanation']}"
    elif undecided := next(statements(run.notes, UNDECIDED), None):
        status, fields = Status.UNKNOWN, undecided.value
        what = f"{fields.get('place')}: whether {fields.get('that')} came true"
        summary = f"{what} was not decided when the faults ended"
    return CheckResult(
        NAME, status, summary, operations=len(run.operations), anomalies=tuple(anomalies)
    )
