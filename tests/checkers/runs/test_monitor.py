"""What a monitor saw while a run went on is its verdict."""

import pytest

from checkers.history import NEMESIS, Event, EventType
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.verdict import Status

VIOLATED = "violation", {"property": "one-vote", "explanation": "two votes", "causes": []}
OPEN = "undecided", {"place": "step 3", "that": "n2 leads"}


@pytest.mark.parametrize(
    ("notes", "status", "summary"),
    [
        ([], Status.PASS, "nothing was violated while it ran"),
        ([OPEN], Status.UNKNOWN, "step 3: whether n2 leads came true was not decided"),
        ([OPEN, VIOLATED], Status.FAIL, "one-vote: two votes, at 1 ns"),
    ],
)
def test_a_violation_fails_and_what_was_left_open_is_unknown(notes, status, summary):
    events = [
        Event(n, n, NEMESIS, EventType.INFO, f, None, said) for n, (f, said) in enumerate(notes)
    ]
    result = run_check(CheckSpec("monitor"), RunInput(events, [], None))
    assert result.status is status
    assert result.summary.startswith(summary)
