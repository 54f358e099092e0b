"""The model `broker`: what a right registration can look like, and what it cannot."""

from dataclasses import replace

import pytest

from checkers.history import INFINITY_NS, EventType, HistoryError, Operation
from checkers.verdict import Status
from porcupine_py.models import Broker
from porcupine_py.search.dispatch import dispatch
from porcupine_py.search.outcome import Budget


def operation(index, f, input_=None, output=None, kind=EventType.OK, at=None):
    begin, end = at or (10 * index, 10 * index + 5)
    return Operation(
        index=index,
        process=index,
        f=f,
        key="0",
        input=input_,
        output=output,
        type=kind,
        invoke_ns=begin,
        complete_ns=INFINITY_NS if kind is EventType.INFO else end,
    )


def register(incarnation, epoch):
    return ("register", {"incarnation": incarnation}, {"epoch": epoch})


def heartbeat(incarnation, epoch, fenced, behind=False):
    return (
        "heartbeat",
        {"incarnation": incarnation, "behind": behind},
        {"epoch": epoch, "fenced": fenced},
    )


def fence(incarnation, epoch, fenced=True):
    return (
        "fence",
        {"incarnation": incarnation, "behind": False},
        {"epoch": epoch, "fenced": fenced},
    )


def read(alive):
    return ("read", None, {"alive": alive})


def first_illegal(*steps):
    """Position of the first step that cannot follow those before it; None: all can."""
    operations = [operation(index, *step) for index, step in enumerate(steps)]
    wrong = Broker().replay(operations)
    return None if wrong is None else wrong.index


LIFE = (
    read(alive=False),
    register("a", 5),
    read(alive=False),
    heartbeat("a", 5, fenced=True, behind=True),
    heartbeat("a", 5, fenced=False),
    read(alive=True),
    heartbeat("a", 5, fenced=False, behind=True),
    register("a", 5),
    read(alive=True),
    fence("a", 5),
    read(alive=False),
    heartbeat("a", 5, fenced=False),
    read(alive=False),  # its session ended
    register("b", 9),
    heartbeat("b", 9, fenced=False),
    read(alive=True),
)


def test_the_operations_of_a_correct_broker_are_legal():
    assert first_illegal(*LIFE) is None


@pytest.mark.parametrize(
    "wrong",
    [
        (register("a", 5), read(alive=True)),
        (register("a", 5), register("a", 6)),
        (register("a", 5), register("b", 5)),
        (register("a", 5), register("b", 4)),
        (register("a", 5), heartbeat("a", 6, fenced=False)),
        (register("a", 5), heartbeat("a", 5, fenced=True)),
        (register("a", 5), heartbeat("a", 5, fenced=False, behind=True)),
        (register("a", 5), fence("a", 5, fenced=False)),
        (register("a", 5), register("b", 9), heartbeat("a", 5, fenced=False)),
        (register("a", 5), register("b", 9), fence("a", 5)),
        (register("a", 5), heartbeat("a", 5, fenced=False), fence("a", 5), read(alive=True)),
        (register("a", 5), heartbeat("a", 5, fenced=False), register("b", 9), read(alive=True)),
        (read(alive=True),),
        (heartbeat("a", 5, fenced=False),),
    ],
)
def test_the_last_step_is_illegal(wrong):
    assert first_illegal(*wrong) == len(wrong) - 1


def test_a_broker_seen_fenced_stays_so_until_a_heartbeat():
    steps = (register("a", 5), heartbeat("a", 5, fenced=False), read(alive=False), read(alive=True))
    assert first_illegal(*steps) == 3


def test_a_lost_registration_leaves_an_epoch_to_be_learnt_once():
    model = Broker()
    lost = operation(0, "register", {"incarnation": "a"}, None, EventType.INFO)
    _, state = model.step(model.init(), lost)
    for epoch, legal in ((7, True), (-1, False)):
        registered = operation(1, *register("a", epoch))
        assert model.step(state, registered)[0] is legal
    _, known = model.step(state, operation(1, *register("a", 7)))
    assert not model.step(known, operation(2, *register("a", 8)))[0]


def test_a_lost_heartbeat_may_have_unfenced_and_one_behind_cannot():
    before = [operation(0, *register("a", 5))]
    shown = operation(2, *read(alive=True))
    for behind, verdict in ((False, Status.PASS), (True, Status.FAIL)):
        value = {"incarnation": "a", "behind": behind}
        lost = operation(1, "heartbeat", value, None, EventType.INFO)
        assert Broker().has_effect(lost) is not behind
        outcome = dispatch([*before, lost, shown], Broker(), None, Budget())[1]
        assert outcome.status is verdict


def test_many_lost_registrations_are_not_tried_in_every_combination():
    lost = [
        operation(i, "register", {"incarnation": f"w{i}"}, None, EventType.INFO) for i in range(40)
    ]
    for epoch, verdict in ((9, Status.PASS), (5, Status.FAIL)):
        history = [operation(50, *register("a", 5)), *(replace(o, invoke_ns=600) for o in lost)]
        history += [operation(70, *register("a", epoch)), operation(80, *read(alive=epoch == 5))]
        outcome = dispatch(history, Broker(), None, Budget())[1]
        assert (outcome.status, outcome.explored < 400) == (verdict, True)


def test_malformed_values_are_refused():
    for broken in (
        operation(0, "register", None, {"epoch": 1}),
        operation(0, "register", {"incarnation": "a"}, None),
        operation(0, "register", {"incarnation": "a"}, {"epoch": True}),
        operation(0, "read", None, {"alive": 1}),
    ):
        with pytest.raises(HistoryError):
            Broker().step(Broker().init(), broken)
