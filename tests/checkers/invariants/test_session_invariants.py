"""Each invariant of brokers' sessions is broken by hand-made looks, not by the closest right ones."""

import math
from dataclasses import replace

import pytest

import checkers.invariants
from checkers.invariants.sessions import SESSIONS, Overdue, Registered
from checkers.invariants.watcher import Watcher

LATE = Overdue(
    session=(2, 40),
    claim=1,
    heard_ms=500.0,
    silent_ms=1_000.0,
    session_ms=1_000.0,
    world_ms=2_000.0,
    unfenced=frozenset({(1, 30), (2, 40)}),
    log_end=60,
    high_watermark=55,
)


def broken(event, *seen):
    watcher = Watcher(among=SESSIONS)
    for fields in seen:
        watcher.take("n1", event, fields)
    return {violation.property for violation in watcher.violations}


@pytest.mark.parametrize(("silent_ms", "found"), [(999.0, {"fenced-silent"}), (1_000.0, set())])
def test_a_broker_is_fenced_when_it_was_silent_for_its_session(silent_ms, found):
    fields = {"broker": 2, "silent_ms": silent_ms, "session_ms": 1_000.0}
    assert broken("broker-fenced", fields) == found


def looks(*, step_ms=320.0, count=8, **last):
    """Looks at one late broker, 2,240 ms from the first to the last; `last` changes that."""
    seen = [
        replace(LATE, world_ms=LATE.world_ms + step_ms * n, high_watermark=60) for n in range(count)
    ]
    seen[-1] = replace(seen[-1], **last)
    return [{"overdue": overdue} for overdue in seen]


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (looks(), {"fenced-in-time"}),
        (looks(step_ms=310.0), set()),
        (looks(step_ms=600.0, count=7), set()),
        ([*looks(count=7), *looks(count=7)[-1:] * 3], set()),
        (looks(high_watermark=59), set()),
        (looks(claim=2), set()),
        (looks(heard_ms=501.0), set()),
        (looks(unfenced=frozenset({(2, 40)})), set()),
    ],
    ids=[
        "it is never fenced",
        "a clock that was slow set the timer",
        "the controller was stopped, and has done little since",
        "what it takes up at one time, as it goes on, is one look",
        "what it had appended is not committed: its buffer may be full",
        "another claim gives a fresh session",
        "it was heard of",
        "another broker was fenced, and this one is next",
    ],
)
def test_a_controller_at_work_fences_who_is_silent(seen, found):
    assert broken("broker-overdue", *seen) == found


ANEW = Registered(
    broker=2, epoch=70, silent_ms=math.inf, session_ms=1_000.0, is_clean=True, eligible=()
)


@pytest.mark.parametrize(
    ("registered", "found"),
    [
        (ANEW, set()),
        (replace(ANEW, silent_ms=999.0), {"one-incarnation"}),
        (replace(ANEW, silent_ms=1_000.0), set()),
        (replace(ANEW, eligible=("t-0",)), set()),
        (replace(ANEW, eligible=("t-0",), is_clean=False), {"unclean-ineligible"}),
        (replace(ANEW, is_clean=False), set()),
    ],
    ids=[
        "nobody was there",
        "the one before is alive",
        "its session has just ended",
        "it was stopped in order and remains eligible",
        "it was not",
        "it was eligible nowhere",
    ],
)
def test_an_incarnation_is_registered_when_the_one_before_is_over(registered, found):
    assert broken("broker-registered", {"registered": registered}) == found


@pytest.mark.parametrize(
    ("known", "found"),
    [({1: 70, 3: 71}, set()), ({1: 70, 3: 69}, {"released-in-time"}), ({}, set())],
    ids=["all know", "broker 3 does not", "nobody else is active"],
)
def test_a_broker_ends_when_others_know_that_it_leads_nothing(known, found):
    assert broken("broker-released", {"broker": 2, "offset": 70, "known": known}) == found


def test_every_invariant_of_sessions_stands_in_the_table():
    names = [invariant.name for invariant in SESSIONS]
    assert [name for name in names if f"| {name} |" not in str(checkers.invariants.__doc__)] == []
