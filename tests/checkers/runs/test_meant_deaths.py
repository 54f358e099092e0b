"""A node that ends itself over a fault is excused from the fault's invocation to its heal."""

import pytest

from checkers.earned.processes import _blame
from checkers.history import NEMESIS, Event, EventType
from checkers.verdict import Status


def note(time_ns, type_, f, **value):
    return Event(0, time_ns, NEMESIS, type_, f, None, value)


def fault(f, invoked_ns, bit_ns, healed_ns):
    injected = {"phase": "inject", "targets": ["n2"], "verified": True}
    healed = {"phase": "heal", "targets": ["n2"], "verified": True}
    detail = {"may_end_node": f == "bit-flip"}
    return [
        note(invoked_ns, EventType.INVOKE, f, phase="inject"),
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
