"""Session guarantees and sequential consistency, against every interleaving of the processes."""

from dataclasses import replace
from itertools import combinations, permutations
from random import Random

import pytest

from checkers import Status
from checkers.guarantees.sessions import GUARANTEES, check_key
from checkers.history import EventType
from checkers.registry import CheckSpec, RunInput, run_check
from tests.checkers.histories import op


def script(*processes):
    """One list of (f, value) for each process; they run one after the other, in no other order."""
    operations = []
    for process, steps in enumerate(processes):
        for f, value in steps:
            at = len(operations)
            value_of = {"input": value} if f == "write" else {"output": value}
            operations.append(op(at, f, (10 * at, 10 * at + 5), process=process, **value_of))
    return operations


def status(operations, **options):
    return check_key(operations, options).status


@pytest.mark.parametrize(
    ("guarantee", "steps"),
    [
        ("monotonic-reads", [("read", 2), ("read", 1)]),
        ("read-your-writes", [("write", 3), ("read", 1)]),
        ("writes-follow-reads", [("read", 2), ("write", 3)]),
        ("monotonic-writes", [("write", 3), ("write", 4)]),
    ],
)
def test_each_guarantee_is_broken_by_its_own_history(guarantee, steps):
    offsets = {1: 10, 2: 20, 3: 30, 4: 25}
    if guarantee == "writes-follow-reads":
        offsets[3] = 15
    history = script([("write", 1)], [("write", 2)], steps)
    history = [replace(o, offset=offsets.get(o.input)) if o.f == "write" else o for o in history]
    result = check_key(history, {})
    assert (result.status, result.anomalies[0]["kind"]) == (Status.FAIL, guarantee)
    assert status(history, guarantees=[guarantee]) is Status.FAIL
    others = [g for g in GUARANTEES if g != guarantee]
    assert status(history, guarantees=others) is Status.PASS


def test_a_session_at_one_node_may_be_behind_another():
    history = script([("write", 1)], [("read", 1), ("read", None)])
    apart = [replace(o, node=f"n{o.index}") for o in history]
    assert status(apart) is Status.FAIL
    assert status(apart, per_node=True) is Status.PASS
    assert status(history, per_node=True) is Status.UNKNOWN  # whose answers they are is not known


def test_an_indeterminate_write_counts_when_it_was_read():
    lost = op(0, "write", (0, None), input=1)
    seen = op(1, "read", (5, 6), output=1)
    gone = op(2, "read", (7, 8), output=None, process=1)
    assert status([lost, seen]) is Status.PASS
    assert status([lost, seen, gone]) is Status.FAIL


def test_a_phantom_fails_and_a_repeated_value_is_not_judged():
    assert status(script([("read", 1)])) is Status.FAIL
    assert status(script([("write", 1), ("write", 1)])) is Status.UNKNOWN
    assert status([op(0, "write", (0, 1), input=1, type=EventType.FAIL)]) is Status.PASS


def interleavings(rest, state):
    """Is there an order of all operations that keeps each process's own and is legal?"""
    if not any(rest):
        return True
    for i, steps in enumerate(rest):
        if not steps:
            continue
        f, value = steps[0]
        if f == "write" or value == state:
            later = (*rest[:i], steps[1:], *rest[i + 1 :])
            if interleavings(later, value if f == "write" else state):
                return True
    return False


def drawn(rnd, values, reads):
    """Sessions that write values one after another, and read any."""
    processes = [[] for _ in range(rnd.randint(1, 3))]
    for value in range(1, values):
        rnd.choice(processes).append(("write", value))
    for _ in range(reads):
        steps = rnd.choice(processes)
        steps.insert(rnd.randint(0, len(steps)), ("read", rnd.choice([None, 1, 2, 3])))
    return processes


def test_all_four_together_are_sequential_consistency():
    verdicts = []
    for case in range(2_000):
        rnd = Random(case)
        processes = drawn(rnd, rnd.randint(1, 4), rnd.randint(0, 4))
        truth = interleavings(tuple(map(tuple, processes)), None)
        verdicts.append(truth)
        assert (status(script(*processes)) is Status.PASS) == truth, processes
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.8


GUARANTEE = {
    ("read", "read"): "monotonic-reads",
    ("write", "read"): "read-your-writes",
    ("read", "write"): "writes-follow-reads",
    ("write", "write"): "monotonic-writes",
}


def some_order(processes, asked):
    """Is there an order of the versions in which no session goes back, as far as is asked?"""
    written = [value for steps in processes for f, value in steps if f == "write"]
    if any(value not in (None, *written) for steps in processes for _, value in steps):
        return False
    if any(
        ("read", value) in steps[:i]
        for steps in processes
        for i, (f, value) in enumerate(steps)
        if f == "write"
    ):
        return False
    pairs = {
        (first[1], then[1])
        for steps in processes
        for first, then in combinations(steps, 2)
        if GUARANTEE[first[0], then[0]] in asked
    }
    return any(
        all(order.index(v) <= order.index(w) for v, w in pairs)
        for order in ((None, *rest) for rest in permutations(written))
    )


def test_each_choice_of_guarantees_is_judged_as_by_brute_force():
    verdicts = []
    for case in range(500):
        rnd = Random(f"guarantees-{case}")
        processes = drawn(rnd, rnd.randint(2, 5), rnd.randint(0, 5))
        asked = rnd.sample(GUARANTEES, rnd.randint(1, 3))
        truth = some_order(processes, asked)
        verdicts.append(truth)
        found = status(script(*processes), guarantees=asked)
        assert (found is Status.PASS) == truth, (processes, asked)
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.8


# -- topics, whose creations are versions --------------------------------------------------------

LAG = {"guarantees": ["monotonic-reads", "monotonic-writes", "writes-follow-reads"]}
LAG |= {"model": "topics", "per_node": True}


def topics(*rows):
    """Operations one after the other: (process, node, f, id), an id of None for no topic."""
    operations = []
    for at, (process, node, f, id_) in enumerate(rows):
        value = None if id_ is None else {"id": id_, "partitions": 1}
        lost = f == "lost-create"
        times = (10 * at, None if lost else 10 * at + 5)
        name = f.removeprefix("lost-")
        output = None if lost else value
        operations.append(op(at, name, times, process=process, node=node, key="t", output=output))
    return operations


def test_an_earlier_creation_that_is_seen_after_a_later_one_is_found():
    made = [(1, "n1", "create", "a"), (1, "n1", "delete", "a"), (1, "n1", "create", "b")]
    back = [(2, "n2", "describe", "b"), (2, "n2", "describe", "a")]
    result = check_key(topics(*made, *back), LAG)
    assert (result.status, result.anomalies[0]["kind"]) == (Status.FAIL, "sequential")
    assert "process 2 read 'b' (operation 3) and then read 'a'" in result.summary


def test_stale_descriptions_that_never_go_back_are_right():
    made = [(1, "n1", "create", "a"), (1, "n1", "delete", "a"), (1, "n1", "create", "b")]
    seen = [(2, "n2", "describe", "a"), (2, "n2", "describe", None), (2, "n2", "describe", "b")]
    # At another node the same client may see what is older.
    older = [(2, "n3", "describe", "a")]
    result = check_key(topics(*made, *seen, *older), LAG)
    assert result.status is Status.PASS
    promise = "monotonic-reads, monotonic-writes, writes-follow-reads (of each client at each node)"
    assert result.statistics["promise"].split(" (")[1] == promise.split(" (")[1]


def test_an_id_that_no_answer_names_is_that_of_a_creation_without_an_answer():
    seen = [(2, "n2", "describe", "x"), (2, "n2", "describe", "x")]
    assert check_key(topics((1, "n1", "lost-create", None), *seen), LAG).status is Status.PASS
    phantom = check_key(topics((1, "n1", "create", "a"), *seen), LAG)
    assert (phantom.status, phantom.anomalies[0]["kind"]) == (Status.FAIL, "phantom-read")
    both = [(2, "n2", "describe", "x"), (2, "n2", "describe", "y"), (2, "n2", "describe", "x")]
    lost = [(1, "n1", "lost-create", None), (3, "n1", "lost-create", None)]
    assert check_key(topics(*lost, *both), LAG).status is Status.FAIL


def test_a_refusal_says_nothing_where_it_may_lag():
    made = op(0, "create", (0, 5), process=1, key="t", input={"partitions": 1})
    made = replace(made, output={"id": "a", "partitions": 1})
    refused = op(1, "delete", (10, 15), type=EventType.FAIL, process=2, key="t")
    refused = replace(refused, error="unknown_topic_or_partition")
    run = RunInput((), [made, refused], None)
    strict = CheckSpec("linearizable", {"model": "topics"})
    lags = CheckSpec("linearizable", {"model": "topics", "refusals": False})
    assert run_check(strict, run).status is Status.FAIL
    assert run_check(lags, run).status is Status.PASS
    again = replace(
        made, index=2, invoke_ns=20, complete_ns=25, output={"id": "b", "partitions": 1}
    )
    twice = RunInput((), [made, refused, again], None)
    assert run_check(lags, twice).status is Status.FAIL, "it was there already"
