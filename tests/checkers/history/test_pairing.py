"""Events become operations, or one clear line says why not."""

import pytest

from checkers.history import INFINITY_NS, NEMESIS, Event, EventType, HistoryError, pair

INVOKE, OK, INFO = EventType.INVOKE, EventType.OK, EventType.INFO


def event(index, process, kind, f="write", time_ns=None, **fields):
    return Event(index, index * 10 if time_ns is None else time_ns, process, kind, f, **fields)


def test_an_invocation_and_its_completion_are_one_operation():
    [operation] = pair(
        [
            event(0, 7, INVOKE, key="k", value=1, node="n1"),
            event(1, 7, OK, key="k", value=1, node="n2", offset=5, epoch=3),
        ]
    )
    assert (operation.index, operation.end_index, operation.process) == (0, 1, 7)
    assert (operation.invoke_ns, operation.complete_ns) == (0, 10)
    assert (operation.key, operation.input, operation.output) == ("k", 1, 1)
    assert (operation.node, operation.offset, operation.epoch) == ("n2", 5, 3)


@pytest.mark.parametrize("completion", [[], [event(1, 7, INFO, error="timed_out")]])
def test_what_never_completed_stays_open_for_ever(completion):
    [operation] = pair([event(0, 7, INVOKE), *completion])
    assert (operation.type, operation.complete_ns) == (INFO, INFINITY_NS)


def test_operations_come_in_order_of_invocation():
    events = [event(0, 1, INVOKE), event(1, 2, INVOKE), event(2, 2, OK), event(3, 1, OK)]
    assert [o.process for o in pair(events)] == [1, 2]


def test_faults_are_left_out():
    events = [event(0, NEMESIS, INVOKE, "kill"), event(1, NEMESIS, OK, "leader")]
    assert pair(events) == []


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([event(0, 1, INVOKE), event(1, 1, INVOKE)], "invokes while its operation"),
        ([event(0, 1, OK)], "without an invocation"),
        ([event(0, 1, INVOKE), event(1, 1, OK), event(2, 1, OK)], "without an invocation"),
        ([event(0, 1, INVOKE), event(1, 1, INFO), event(2, 1, INVOKE)], "after it ended in info"),
        ([event(0, 1, INVOKE), event(1, 1, OK, "read")], "not what it invoked"),
        ([event(0, 1, INVOKE, key="a"), event(1, 1, OK, key="b")], "not what it invoked"),
        ([event(3, 1, INVOKE), event(3, 1, OK)], "comes after index 3"),
        ([event(0, 1, INVOKE), event(1, 1, OK, time_ns=-1)], "has a time before the run began"),
        (
            [event(0, 1, INVOKE, time_ns=5), event(1, 1, OK, time_ns=4)],
            "goes back in time by 1e-06 ms, from 5 ns",
        ),
    ],
)
def test_a_history_that_is_not_well_formed_is_refused(events, message):
    with pytest.raises(HistoryError, match=message):
        pair(events)
