"""A node that ends itself over a fault is excused from the fault's invocation to its heal."""

import pytest

from checkers.earned.base import Judged
from checkers.earned.processes import _blame, deaths_meant, restarts_meant
from checkers.evidence import Evidence, TraceEvent
from checkers.history import NEMESIS, Event, EventType
from checkers.run_input import RunInput
from checkers.verdict import Status


def note(time_ns, type_, f, **value):
    return Event(0, time_ns, NEMESIS, type_, f, None, value)


def fault(f, invoked_ns, bit_ns, healed_ns, *, bit=True):
    injected = {"phase": "inject", "targets": ["n2"], "verified": bit}
    healed = {"phase": "heal", "targets": ["n2"], "verified": True}
    detail = {"may_end_node": f in ("bit-flip", "disk-error")}
    return [
        note(invoked_ns, EventType.INVOKE, f, phase="inject", targets=["n2"]),
        note(bit_ns, EventType.OK, f, **injected, detail=detail),
        note(healed_ns, EventType.OK, f, **healed, detail=detail),
    ]


@pytest.mark.parametrize(
    ("at_ns", "blame"),
    [
        (15, Status.FAIL),
        (39, Status.FAIL),
        (40, None),
        (41, None),
        (60, None),
        (61, Status.UNKNOWN),
    ],
)
def test_a_death_is_excused_while_a_fault_that_may_end_the_node_is_there(at_ns, blame):
    notes = [*fault("kill", 10, 20, 30), *fault("bit-flip", 40, 50, 60)]
    crash = note(at_ns, EventType.INFO, "crash", node="n2", exit_code=1)
    assert _blame(crash, notes, unclear=False) is blame


CRASH = note(1, EventType.INFO, "crash", node="n2", exit_code=1)


@pytest.mark.parametrize(
    ("notes", "fatal", "starts_max"),
    [
        ([], 0, 1),
        (fault("pause", 1, 2, 3), 0, 1),
        (fault("kill", 1, 2, 3), 0, 2),
        (fault("restart", 1, 2, 3), 0, 2),
        (fault("restart", 1, 2, 3, bit=False), 0, 3),
        (fault("address-change", 1, 2, 3), 0, 2),
        (fault("upgrade", 1, 2, 3) + fault("kill", 4, 5, 6), 0, 3),
        (fault("bit-flip", 1, 2, 3), 0, 3),
        (fault("disk-error", 1, 2, 3), 0, 3),
        ([CRASH], 1, 2),
        ([CRASH], 2, 3),
        ([CRASH, CRASH], 1, 3),
    ],
)
def test_a_process_begins_as_often_as_the_journal_may_start_it(notes, fatal, starts_max):
    for starts, status in ((starts_max, Status.PASS), (starts_max + 1, Status.UNKNOWN)):
        trace = [TraceEvent("n2", n, 0, "start", {"pid": n}) for n in range(starts)]
        trace += [TraceEvent("n2", n, 0, "fatal", {}) for n in range(fatal)]
        run = RunInput(notes, [], Evidence(["n2"], {}, {}, {"n2": trace}, {}))
        assert restarts_meant(Judged(run, [], [], {})).status is status


@pytest.mark.parametrize(
    ("notes", "status"),
    [
        ([CRASH], Status.FAIL),
        ([note(1, EventType.INFO, "crash", node="n2", exit_code=-9)], Status.UNKNOWN),
        ([note(0, EventType.INFO, "no-space"), CRASH], Status.UNKNOWN),
        ([], Status.PASS),
    ],
)
def test_a_death_by_itself_fails_and_one_from_outside_is_unknown(notes, status):
    assert deaths_meant(Judged(RunInput(notes, []), [], [], {})).status is status
