"""Each invariant of brokers' sessions is broken by hand-made looks, not by the closest right ones."""

import math
from dataclasses import replace

import pytest

import checkers.invariants
from checkers.invariants.sessions import SESSIONS, Registered
from checkers.invariants.watcher import Watcher


def broken(event, *seen):
    watcher = Watcher(among=SESSIONS)
    for fields in seen:
        watcher.take("n1", event, fields)
    return {violation.property for violation in watcher.violations}


@pytest.mark.parametrize(("silent_ms", "found"), [(999.0, {"fenced-silent"}), (1_000.0, set())])
def test_a_broker_is_fenced_when_it_was_silent_for_its_session(silent_ms, found):
    fields = {"broker": 2, "silent_ms": silent_ms, "session_ms": 1_000.0}
    assert broken("broker-fenced", fields) == found


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
