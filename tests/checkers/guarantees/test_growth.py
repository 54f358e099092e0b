"""Objects that only grow: by hand, and against every order of the writes and of stale reads."""

from dataclasses import replace
from random import Random

import pytest

from checkers import Status
from checkers.guarantees.growth import check_key
from checkers.history import EventType
from checkers.registry import CheckSpec, RunInput, find_check, merge, run_check
from tests.checkers.histories import op
from tests.checkers.invariants.more_worlds import oracle

LISTS, COUNTS, BROKERS = ({"model": name} for name in ("list-append", "counter", "broker"))


def append(element, begin, end, **fields):
    return op(begin, "append", (begin, end), input=element, node="n1", **fields)


def increment(begin, end, **fields):
    return op(begin, "increment", (begin, end), node="n1", **fields)


def read(value, begin, end, node="n2", process=0):
    return op(begin, "read", (begin, end), output=value, node=node, process=process)


def verdict(operations, options):
    result = check_key(operations, options)
    assert (result.status is Status.FAIL) == bool(result.anomalies)
    return result.anomalies[0]["kind"] if result.anomalies else result.status


A, B = append("a", 0, 9), append("b", 10, 19)
LOST = append("x", 5, None)
REFUSED = append("r", 5, 6, type=EventType.FAIL, error="invalid_config")


@pytest.mark.parametrize(
    ("kind", "history"),
    [
        ("went-back", [A, B, read(["a", "b"], 30, 39), read(["a"], 40, 49, process=1)]),
        ("went-back", [A, read(["a"], 30, 39), read([], 40, 49)]),
        ("lost", [A, B, read(["b"], 30, 39)]),
        ("lost", [A, B, read([], 20, 25), read(["b"], 30, 39, "n3")]),
        ("reordered", [A, B, read(["b", "a"], 30, 39)]),
        ("doubled", [A, B, read(["a", "b", "a"], 30, 39)]),
        ("phantom", [A, read(["a", "z"], 30, 39)]),
        ("phantom", [A, REFUSED, read(["a", "r"], 30, 39)]),
        ("read-before-append", [A, B, read(["a", "b"], 1, 5)]),
        (
            "reads-disagree",
            [
                append("a", 0, 9),
                append("b", 0, 9),
                read(["a", "b"], 30, 39, "n2"),
                read(["b"], 30, 39, "n3"),
            ],
        ),
        ("reads-disagree", [A, LOST, read(["a"], 10, 11, "n2"), read(["x"], 10, 11, "n3")]),
    ],
)
def test_a_list_that_does_not_only_grow_is_found(kind, history):
    assert verdict(history, LISTS) == kind


ONE, TWO = increment(0, 9), increment(10, 19)


@pytest.mark.parametrize(
    ("expected", "history"),
    [
        (Status.PASS, [ONE, TWO, read(0, 30, 39), read(1, 40, 49), read(2, 50, 59)]),
        (Status.PASS, [ONE, TWO, read(2, 30, 39, "n2"), read(0, 40, 49, "n3")]),
        (Status.PASS, [ONE, increment(5, None), read(2, 30, 39)]),
        (Status.PASS, [ONE, increment(5, None), read(1, 30, 39)]),
        ("went-back", [ONE, TWO, read(2, 30, 39), read(1, 40, 49, process=1)]),
        ("phantom", [ONE, TWO, read(3, 30, 39)]),
        ("phantom", [ONE, TWO, read(2, 1, 5)]),
        ("phantom", [ONE, increment(5, 6, type=EventType.FAIL), read(2, 30, 39)]),
        ("phantom", [ONE, read(-1, 30, 39)]),
    ],
)
def test_a_counter_is_held_to_its_increments_and_its_nodes(expected, history):
    assert verdict(history, COUNTS) == expected


def said(f, begin, incarnation, epoch, node="n1", **fields):
    """An answer of a controller; an epoch of None for none."""
    value = {"incarnation": incarnation, "behind": fields.pop("behind", False)}
    output = {"epoch": epoch, "fenced": fields.pop("fenced", f == "fence")}
    end = None if epoch is None else begin + 5
    return op(begin, f, (begin, end), input=value, output=output, node=node, process=begin)


def seen(begin, alive, node="n2"):
    return op(begin, "read", (begin, begin + 5), output={"alive": alive}, node=node)


FIRST = [said("register", 0, "a", 4), said("heartbeat", 10, "a", 4)]


@pytest.mark.parametrize(
    ("expected", "history"),
    [
        (Status.PASS, [*FIRST, seen(20, False), seen(30, True), seen(40, False)]),
        (Status.PASS, [*FIRST, said("register", 20, "b", 9), said("heartbeat", 30, "a", 4, "n3")]),
        (
            Status.PASS,
            [said("register", 0, "a", 4), said("heartbeat", 10, "a", None), seen(20, True)],
        ),
        (
            Status.PASS,
            [*FIRST, said("heartbeat", 20, "a", 4, behind=True), said("fence", 30, "a", 4)],
        ),
        ("went-back", [*FIRST, said("register", 20, "b", 9), said("heartbeat", 30, "a", 4)]),
        ("went-back", [said("register", 0, "a", 4), said("register", 20, "b", 3)]),
        ("shared-epoch", [said("register", 0, "a", 4), said("register", 20, "b", 4, "n2")]),
        ("not-fenced", [*FIRST, said("fence", 20, "a", 4, fenced=False)]),
        ("not-unfenced", [*FIRST, said("heartbeat", 20, "a", 4, fenced=True)]),
        ("phantom", [said("register", 0, "a", 4), said("heartbeat", 10, "a", 4, behind=True)]),
        ("phantom", [said("register", 0, "a", 4), seen(20, True), said("heartbeat", 30, "a", 4)]),
    ],
)
def test_no_controller_takes_back_an_epoch_and_nobody_is_unfenced_for_nothing(expected, history):
    assert verdict(history, BROKERS) == expected


def test_registrations_are_linearizable_by_themselves():
    spec = CheckSpec("linearizable", {"model": "broker", "functions": ["register"]})
    again = [
        said("register", 0, "a", 4),
        said("register", 20, "b", 9),
        said("register", 30, "a", 12),
    ]
    assert run_check(spec, RunInput((), again)).status is Status.PASS
    stale = [*again, said("heartbeat", 40, "b", 9, "n3")]
    assert run_check(spec, RunInput((), stale)).status is Status.PASS, "from a deposed leader"
    for wrong in (
        [said("register", 0, "a", 4), said("register", 20, "b", 3, "n3")],
        [said("register", 0, "a", 4), said("register", 20, "a", 7, "n3")],
    ):
        assert run_check(spec, RunInput((), wrong)).status is Status.FAIL
    # Another incarnation, without an answer, may have been between.
    between = [said("register", 0, "a", 4), said("register", 8, "b", None)]
    between.append(said("register", 20, "a", 7, "n3"))
    assert run_check(spec, RunInput((), between)).status is Status.PASS


def test_what_cannot_be_judged_is_unknown():
    for amounts in ([1, 2], [-1], [1, 1, -1]):
        grown = [increment(10 * i, 10 * i + 9, input=n) for i, n in enumerate(amounts)]
        assert verdict([*grown, read(1, 90, 99)], COUNTS) is Status.UNKNOWN
    assert verdict([A, append("a", 10, 19)], LISTS) is Status.UNKNOWN
    assert verdict([A, read([], 10, 19, node=None)], LISTS) is Status.UNKNOWN
    check = find_check(CheckSpec("growth", COUNTS))
    assert check.check_key([ONE, read("2", 10, 19)], COUNTS).status is Status.UNKNOWN


def test_the_promise_is_in_the_summary():
    promise = "linearizable appends and reads that may be stale but go back at no node"
    merged = merge("growth", [check_key([A, read([], 30, 39)], LISTS)])
    assert f"every key keeps {promise}" in merged.summary


def lagging(rnd, of_lists):
    """A history of nodes that lag, spoilt now and then; and its shape for the brute force."""
    f = "append" if of_lists else rnd.choice(["add", "increment"])
    amount = rnd.choice([1, 3])
    state, shown, operations = [], {"n1": 0, "n2": 0}, []
    for index in range(rnd.randint(3, 6)):
        point = 4 * index + rnd.randint(0, 6)
        begin, end = point - rnd.randint(0, 6), point + rnd.randint(0, 6)
        node = rnd.choice(["n1", "n2"])
        if rnd.random() < 0.5:
            lost = rnd.random() < 0.2
            if not lost or rnd.random() < 0.5:
                state.append(index)
            end = None if lost else end
            given = index if of_lists else amount
            operations.append(op(index, f, (begin, end), input=given, node=node))
            continue
        shown[node] = rnd.randint(shown[node], len(state))
        if rnd.random() < 0.15:
            shown[node] = rnd.randint(0, shown[node])
        value = state[: shown[node]]
        if rnd.random() < 0.1:
            rnd.shuffle(value)
        if rnd.random() < 0.1:
            value = rnd.sample(range(6), rnd.randint(0, 3))
        output = value if of_lists else amount * len(value) + (rnd.random() < 0.1)
        operations.append(op(index, "read", (begin, end), output=output, node=node))
    return operations


def keeps_promise(operations, of_lists):
    """Is it linearizable when reads began with the run, and does no node show less than before?"""
    began = [replace(o, invoke_ns=-10) if o.f == "read" else o for o in operations]
    reads = [o for o in operations if o.f == "read"]
    amount = len if of_lists else int
    return oracle.is_linearizable(began, "list-append" if of_lists else "counter") and not any(
        a.node == b.node and a.complete_ns < b.invoke_ns and amount(a.output) > amount(b.output)
        for a in reads
        for b in reads
    )


@pytest.mark.slow
@pytest.mark.parametrize("of_lists", [True, False], ids=["lists", "counters"])
def test_the_verdict_is_that_of_brute_force(of_lists):
    verdicts = []
    for case in range(3_000):
        operations = lagging(Random(case), of_lists)
        truth = keeps_promise(operations, of_lists)
        verdicts.append(truth)
        found = check_key(operations, LISTS if of_lists else COUNTS)
        assert (found.status is Status.PASS) == truth, (case, found.summary, operations)
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.9
