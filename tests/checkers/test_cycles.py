"""Anomalies of transactions: each by name, none in what is serializable."""

from itertools import permutations
from random import Random

import pytest

from checkers import HistoryError, Status
from checkers.cycles import FORBIDDEN, check
from checkers.cycles.graph import components
from checkers.history import EventType
from checkers.registry import CheckSpec, RunInput, find_check, run_check
from tests.checkers.histories import op

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO


def txn(index, steps, begin=0, end=100, kind=OK, process=None):
    asked = [[f, k, None if f == "r" else v] for f, k, v in steps]
    end = None if kind is INFO else end
    return op(
        index,
        "txn",
        (begin, end),
        input=asked,
        output=steps,
        type=kind,
        process=index if process is None else process,
    )


def judged(history, model="list-append", **options):
    result = check(RunInput([], history), {"model": model, **options})
    return result.status, {anomaly["kind"] for anomaly in result.anomalies}, result


def a(key, value):
    return ["append", key, value]


def r(key, value):
    return ["r", key, value]


def w(key, value):
    return ["w", key, value]


LISTS = {
    "G0": [
        txn(0, [a("x", 1), a("y", 1)]),
        txn(1, [a("x", 2), a("y", 2)]),
        txn(2, [r("x", [1, 2]), r("y", [2, 1])]),
    ],
    "G1a": [txn(0, [a("x", 1)], kind=FAIL), txn(1, [r("x", [1])])],
    "G1b": [txn(0, [a("x", 1), a("x", 2)]), txn(1, [r("x", [1])])],
    "G1c": [txn(0, [a("x", 1), r("y", [1])]), txn(1, [a("y", 1), r("x", [1])])],
    "G-single": [
        txn(0, [a("x", 1), a("y", 1)]),
        txn(1, [r("x", [1]), r("y", [])]),
        txn(2, [r("y", [1])]),
    ],
    "G2": [txn(0, [r("x", []), a("y", 1)]), txn(1, [r("y", []), a("x", 1)])],
    "garbage": [txn(0, [r("x", [1])])],
    "duplicate": [txn(0, [a("x", 1)]), txn(1, [r("x", [1, 1])])],
    "internal": [txn(0, [a("x", 1), r("x", [])])],
    "future-read": [txn(0, [r("x", [1]), a("x", 1)])],
    "lost-update": [
        txn(0, [a("x", 1)]),
        txn(1, [r("x", [1]), a("x", 2)]),
        txn(2, [r("x", [1]), a("x", 3)]),
    ],
    "dirty-update": [
        txn(0, [a("x", 1)], kind=FAIL),
        txn(1, [a("x", 2)], kind=INFO),
        txn(2, [a("x", 3)]),
        txn(3, [r("x", [1, 2, 3])]),
    ],
    "G-nonadjacent": [
        txn(0, [a("x", 1)]),
        txn(1, [r("x", [1]), r("y", [])]),
        txn(2, [a("y", 1)]),
        txn(3, [r("y", [1]), r("x", [])]),
    ],
    "incompatible-order": [
        txn(0, [a("x", 1)]),
        txn(1, [a("x", 2)]),
        txn(2, [r("x", [1, 2])]),
        txn(3, [r("x", [2, 1])]),
    ],
    "G-single-realtime": [txn(0, [a("x", 1)], 0, 1), txn(1, [r("x", [])], 5, 6)],
    "G-single-process": [
        txn(0, [a("x", 1)], 0, 5, process=7),
        txn(1, [r("x", [])], 5, 6, process=7),
    ],
    "G0-realtime": [
        txn(0, [a("x", 1)], 0, 1),
        txn(1, [a("x", 2)], 5, 6),
        txn(2, [r("x", [2, 1])], 5, 9),
    ],
    "G1c-realtime": [txn(0, [r("x", [1])], 0, 1), txn(1, [a("x", 1)], 5, 6)],
}


@pytest.mark.parametrize("kind", LISTS)
def test_each_anomaly_of_lists_has_its_name(kind):
    status, kinds, result = judged(LISTS[kind])
    assert status is Status.FAIL
    assert kind in kinds
    assert "T" in result.anomalies[0]["explanation"]


REGISTERS = {
    "G1a": [txn(0, [w("x", 1)], kind=FAIL), txn(1, [r("x", 1)])],
    "G1b": [txn(0, [w("x", 1), w("x", 2)]), txn(1, [r("x", 1)])],
    "G1c": [txn(0, [w("x", 1), r("y", 1)]), txn(1, [w("y", 1), r("x", 1)])],
    "G-single": [txn(0, [w("x", 1), w("y", 1)]), txn(1, [r("x", 1), r("y", None)])],
    "G2": [txn(0, [r("x", None), w("y", 1)]), txn(1, [r("y", None), w("x", 1)])],
    "internal": [txn(0, [w("x", 1), r("x", 2)]), txn(1, [w("x", 2)])],
    "garbage": [txn(0, [r("x", 1)])],
    "future-read": [txn(0, [r("x", 1), w("x", 1)])],
    "cyclic-versions": [txn(0, [r("x", 1), w("x", 2)]), txn(1, [r("x", 2), w("x", 1)])],
    "G-single-realtime": [txn(0, [w("x", 1)], 0, 1), txn(1, [r("x", None)], 5, 6)],
}


@pytest.mark.parametrize("kind", REGISTERS)
def test_each_anomaly_of_registers_has_its_name(kind):
    status, kinds, _ = judged(REGISTERS[kind], "rw-register")
    assert status is Status.FAIL
    assert kind in kinds


def test_a_lost_update_is_a_cycle():
    update = [txn(0, [w("x", 1)]), txn(1, [r("x", 1), w("x", 2)]), txn(2, [r("x", 1), w("x", 3)])]
    assert judged(update, "rw-register")[1] & {"G2", "G-single"}
    snapshots = judged(update, "rw-register", consistency="snapshot-isolation")
    assert (snapshots[0], snapshots[1]) == (Status.FAIL, {"lost-update"})
    assert judged(update, "rw-register", consistency="read-committed")[0] is Status.PASS


def test_two_writes_of_one_transaction_are_no_lost_update():
    history = [txn(0, [r("x", []), a("x", 1), a("x", 2)]), txn(1, [r("x", [1, 2])])]
    assert judged(history)[0] is Status.PASS


def test_snapshot_isolation_allows_anti_dependencies_that_follow_each_other():
    """Of five transactions: rw, rw, wr, rw, wr."""
    steps = [
        [r("y", []), r("x", [1])],
        [a("y", 1), r("z", [])],
        [a("z", 1), a("t", 1)],
        [r("t", [1]), r("u", [])],
        [a("u", 1), a("x", 1)],
    ]
    history = [txn(i, each) for i, each in enumerate(steps)]
    assert judged(history, consistency="snapshot-isolation")[0] is Status.PASS
    assert judged(history, consistency="serializable")[1] == {"G2"}


def test_the_result_names_the_weakest_level_violated_and_the_strongest_kept():
    def levels(history):
        statistics = judged(history)[2].statistics
        return statistics["weakest_violated"], statistics["strongest_satisfied"]

    assert levels(LISTS["G0"]) == (["read-uncommitted"], [])
    assert levels(LISTS["G-single"])[0] == ["snapshot-isolation", "repeatable-read"]
    skew = levels(LISTS["G2"])
    assert skew == (["repeatable-read"], ["strong-snapshot-isolation"])
    stale = levels(LISTS["G-single-realtime"])
    assert stale == (
        ["strong-snapshot-isolation"],
        ["strong-session-serializable", "strong-read-committed"],
    )


def test_linearizable_keys_show_more():
    stale = [
        txn(0, [w("x", 1)], 0, 1),
        txn(1, [w("x", 2), w("y", 1)], 2, 3),
        txn(2, [r("x", 1), r("y", 1)], 2, 9),
    ]
    assert judged(stale, "rw-register", consistency="serializable")[0] is Status.PASS
    strict = judged(stale, "rw-register", consistency="serializable", linearizable_keys=True)
    assert strict[0] is Status.FAIL


def test_a_consistency_model_forbids_its_anomalies():
    weaker = ["read-uncommitted", "read-committed", "snapshot-isolation", "serializable"]
    for kind, first in (("G0", 0), ("G1c", 1), ("G-single", 2), ("G2", 3)):
        for place, name in enumerate(weaker):
            expected = Status.FAIL if place >= first else Status.PASS
            assert judged(LISTS[kind], consistency=name)[0] is expected, (kind, name)
    assert judged(LISTS["G-single-realtime"], consistency="serializable")[0] is Status.PASS
    assert judged(LISTS["G-single-process"], consistency="strong-session-serializable")[0] is (
        Status.FAIL
    )
    assert set(weaker) < set(FORBIDDEN)


def test_a_read_behind_own_appends_shows_what_was_there_before_them():
    """T1 read 1 and its own 2 without T0's 3 of the same key; T0 read y before T1 wrote it."""
    history = [
        txn(0, [a("x", 1)]),
        txn(1, [a("x", 2), r("x", [1, 2]), a("y", 1)]),
        txn(2, [r("y", []), r("x", [1, 2])]),
    ]
    assert judged(history, consistency="serializable")[1] == {"G-single"}


def test_a_read_of_a_later_append_of_its_own_is_no_committed_read():
    for consistency in ("read-committed", "snapshot-isolation", "serializable"):
        assert judged(LISTS["future-read"], consistency=consistency)[0] is Status.FAIL
    assert judged(LISTS["future-read"], consistency="read-uncommitted")[0] is Status.PASS


def test_an_indeterminate_transaction_counts_once_it_was_read():
    unread = [txn(0, [a("x", 1)], kind=INFO), txn(1, [r("x", [])], 5, 6)]
    assert judged(unread)[0] is Status.PASS
    read = [*unread, txn(2, [r("x", [1])], 1, 2)]
    assert judged(read)[1] == {"G-single-realtime"}


def test_what_is_not_unique_or_no_transaction_is_not_judged():
    assert judged([txn(0, [a("x", 1)]), txn(1, [a("x", 1)])])[0] is Status.UNKNOWN
    assert judged([txn(0, [w("x", 1), w("x", 1)])], "rw-register")[0] is Status.UNKNOWN
    with pytest.raises(HistoryError, match="neither"):
        judged([txn(0, [["cas", "x", 1]])])
    with pytest.raises(ValueError, match="unknown consistency"):
        find_check(CheckSpec("transactions", {"consistency": "acid"}))


def test_components_are_those_of_a_long_cycle():
    ring = {i: [(i + 1) % 5000] for i in range(5000)}
    assert [len(group) for group in components(ring)] == [5000]
    assert sorted(map(len, components({0: [1], 1: [0, 2], 2: []}))) == [1, 2]


def world(rnd, model):
    """Run transactions one by one, or spoil what they read; returns them with their times."""
    state, history, count = {}, [], 0
    for index in range(rnd.randint(2, 4)):
        steps = []
        for _ in range(rnd.randint(1, 3)):
            key = rnd.choice("xy")
            if rnd.random() < 0.5:
                value = state.get(key, [])
                steps.append(
                    r(key, list(value) if model == "list-append" else (value or [None])[-1])
                )
            else:
                count += 1
                state[key] = [*state.get(key, []), count]
                steps.append([("append" if model == "list-append" else "w"), key, count])
        begin = 3 * index - rnd.randint(0, 4)
        history.append(txn(index, steps, max(0, begin), max(0, begin) + rnd.randint(3, 8)))
    if rnd.random() < 0.7:
        spoil(rnd, rnd.choice(history), history, model)
    return history


def spoil(rnd, transaction, history, model):
    values = [s[2] for t in history for s in t.output if s[0] != "r"]
    for step in transaction.output:
        if step[0] == "r" and model == "list-append":
            step[2] = step[2][: rnd.randint(0, len(step[2]))] if rnd.random() < 0.7 else values[:2]
        elif step[0] == "r":
            step[2] = rnd.choice([None, *values])


def serializable(history, model, *, strict):
    return any(runs(order, model) for order in permutations(history) if not strict or timely(order))


def timely(order):
    return not any(
        later.complete_ns < earlier.invoke_ns
        for i, earlier in enumerate(order)
        for later in order[i + 1 :]
    )


def runs(order, model):
    state = {}
    for transaction in order:
        for f, key, value in transaction.output:
            seen = state.get(key, [])
            if f != "r":
                state[key] = [*seen, value]
            elif value != (seen if model == "list-append" else (seen or [None])[-1]):
                return False
    return True


@pytest.mark.parametrize("model", ["list-append", "rw-register"])
def test_what_is_serializable_has_no_anomaly_and_most_of_the_rest_has_one(model):
    wrong = found = 0
    for case in range(1_500):
        history = world(Random(f"{model}-{case}"), model)
        for consistency in ("serializable", "strict-serializable"):
            right = serializable(history, model, strict=consistency.startswith("strict"))
            status = judged(history, model, consistency=consistency)[0]
            assert not right or status is Status.PASS, history
            wrong += not right
            found += status is Status.FAIL
    assert wrong > 300
    assert found > (0.99 if model == "list-append" else 0.75) * wrong


def test_the_check_is_known_by_name():
    run = RunInput([], LISTS["G2"])
    assert run_check(CheckSpec("transactions", {"model": "list-append"}), run).status is Status.FAIL
