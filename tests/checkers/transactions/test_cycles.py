"""Anomalies of transactions: each by name, none in what is serializable."""

import pytest

from checkers import Status
from checkers.history import EventType
from checkers.registry import CheckSpec, RunInput, find_check
from checkers.transactions import check, serial
from checkers.transactions.graph import components
from checkers.transactions.levels import NOT_LOOKED_FOR
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
    "append-order": [txn(0, [a("x", 1), a("x", 2), a("x", 3)]), txn(1, [r("x", [2, 1, 3])])],
    "cyclic-versions": [
        txn(0, [a("x", 1)]),
        txn(1, [a("x", 2)]),
        txn(2, [r("x", [1])]),
        txn(3, [r("x", [2])]),
    ],
    "non-repeatable-read": [txn(0, [r("x", []), r("x", [1])]), txn(1, [a("x", 1)])],
    "fractured-read": [txn(0, [a("x", 1), a("y", 1)]), txn(1, [r("x", [1]), r("y", [])])],
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
    assert "transaction of process" in result.anomalies[0]["explanation"]


REGISTERS = {
    "G1a": [txn(0, [w("x", 1)], kind=FAIL), txn(1, [r("x", 1)])],
    "G1b": [txn(0, [w("x", 1), w("x", 2)]), txn(1, [r("x", 1)])],
    "G1c": [txn(0, [w("x", 1), r("y", 1)]), txn(1, [w("y", 1), r("x", 1)])],
    "G-single": [txn(0, [w("x", 1), w("y", 1)]), txn(1, [r("x", 1), r("y", None)])],
    "G2": [txn(0, [r("x", None), w("y", 1)]), txn(1, [r("y", None), w("x", 1)])],
    "internal": [txn(0, [w("x", 1), r("x", 2)]), txn(1, [w("x", 2)])],
    "non-repeatable-read": [txn(0, [r("x", None), r("x", 1)]), txn(1, [w("x", 1)])],
    "fractured-read": [txn(0, [w("x", 1), w("y", 1)]), txn(1, [r("x", 1), r("y", None)])],
    "garbage": [txn(0, [r("x", 1)])],
    "future-read": [txn(0, [r("x", 1), w("x", 1)])],
    "G-single-realtime": [txn(0, [w("x", 1)], 0, 1), txn(1, [r("x", None)], 5, 6)],
}


@pytest.mark.parametrize("kind", REGISTERS)
def test_each_anomaly_of_registers_has_its_name(kind):
    status, kinds, _ = judged(REGISTERS[kind], "rw-register")
    assert status is Status.FAIL
    assert kind in kinds


@pytest.mark.parametrize("level", NOT_LOOKED_FOR)
def test_a_level_that_is_not_looked_for_is_kept_only_with_a_stronger_one(level):
    assert judged([txn(0, [a("x", 1)])], consistency=level)[0] is Status.PASS
    long_fork = [
        txn(0, [a("x", 1)]),
        txn(1, [a("y", 1)]),
        txn(2, [r("x", [1]), r("y", [])]),
        txn(3, [r("x", []), r("y", [1])]),
    ]
    implied = level in ("cursor-stability", "monotonic-view", "monotonic-atomic-view")
    expected = Status.PASS if implied else Status.UNKNOWN
    assert judged(long_fork, consistency=level)[0] is expected
    seen_in_part = [txn(0, [a("x", 1), a("y", 1)]), txn(1, [r("x", [1]), r("y", [])])]
    assert judged(seen_in_part, consistency=level)[0] in (Status.UNKNOWN, Status.FAIL)


def test_options_of_registers_are_refused_for_lists():
    for name, value in (
        ("linearizable_keys", True),
        ("sequential_keys", True),
        ("wfr_keys", False),
        ("transaction_order", {0: 1}),
    ):
        with pytest.raises(ValueError, match=name.replace("_", "-")):
            find_check(CheckSpec("transactions", {"model": "list-append", name: value}))
        find_check(CheckSpec("transactions", {"model": "rw-register", name: value}))


@pytest.mark.parametrize(
    "reply",
    [
        [a("x", 1)],
        [a("x", 1), r("z", [])],
        [a("x", 1), a("y", 1)],
        [a("x", 2), r("y", [])],
        [r("y", []), a("x", 1)],
        [a("x", 1), r("y", []), a("y", 5)],
        [],
        "aborted",
    ],
)
@pytest.mark.parametrize("kind", [OK, INFO, FAIL])
def test_a_completion_of_another_transaction_is_wrong(reply, kind):
    asked = [a("x", 1), r("y", None)]
    answer = op(0, "txn", (0, 9), input=asked, output=reply, type=kind)
    status, kinds, result = judged([answer], consistency="read-uncommitted")
    assert (status, kinds) == (Status.FAIL, {"foreign-reply"})
    assert result.anomalies[0]["operations"] == [0]
    registers = [["w" if f == "append" else f, k, v] for f, k, v in asked]
    answer = op(0, "txn", (0, 9), input=registers, output=[w("x", 2), r("y", 1)], type=kind)
    assert judged([answer], "rw-register")[0] is Status.FAIL


def test_a_completion_without_its_transaction_shows_nothing():
    nothing = op(0, "txn", (0, 9), input=[a("x", 1)], output=None)
    assert judged([nothing])[0] is Status.UNKNOWN
    for model in ("list-append", "rw-register"):
        unread = op(0, "txn", (0, 9), input=[r("x", None)], output=[["r", "x"]])
        assert judged([unread], model)[0] is Status.UNKNOWN
    for kind in (INFO, FAIL):
        history = [op(0, "txn", (0, 9), input=[a("x", 1)], type=kind), txn(1, [r("x", [])])]
        assert judged(history)[0] is Status.PASS


def test_write_skew_has_a_name_and_is_no_lost_update():
    for history, model in ((LISTS["G2"], "list-append"), (REGISTERS["G2"], "rw-register")):
        status, kinds, result = judged(history, model, consistency="serializable")
        assert (status, kinds) == (Status.FAIL, {"G2", "write-skew"})
        assert result.statistics["anomaly_types"] == ["G2-item", "write-skew"]
        assert judged(history, model, consistency="snapshot-isolation")[0] is Status.PASS
    assert "write-skew" not in judged(LISTS["lost-update"])[1]


def test_levels_have_the_names_that_adya_and_elle_give_them():
    history = REGISTERS["G2"]
    for name in ("PL-3", "conflict-serializable", "PL-2.99", "PL-SS", "strong-serializable"):
        assert judged(history, "rw-register", consistency=name)[0] is Status.FAIL, name
    for name in ("PL-1", "PL-2", "PL-SI", "consistent-view", "strong-PL-2", "read-atomic"):
        assert judged(history, "rw-register", consistency=name)[0] is Status.PASS, name


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
    assert levels(LISTS["G-single"])[0] == ["consistent-view", "read-atomic", "repeatable-read"]
    assert levels(LISTS["lost-update"])[0] == ["cursor-stability", "update-atomic"]
    assert levels(LISTS["internal"]) == (["read-uncommitted"], [])
    assert levels(LISTS["non-repeatable-read"])[1] == ["strong-read-committed"]
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


def test_linearizable_keys_order_what_was_only_read():
    history = [
        txn(0, [w("x", 1)], 0, 9),
        txn(1, [w("x", 2)], 0, 9),
        txn(2, [r("x", 1)], 10, 11),
        txn(3, [r("x", 2)], 12, 13),
        txn(4, [r("x", 1)], 14, 15),
    ]
    options = {"consistency": "read-committed"}
    assert judged(history, "rw-register", **options)[0] is Status.PASS
    found = judged(history, "rw-register", linearizable_keys=True, **options)
    assert found[:2] == (Status.FAIL, {"cyclic-versions"})


def test_sequential_keys_order_versions_as_each_process_saw_them():
    """As in Elle's test of G0: x is 2 after 1 for one process, y 2 after 1 for the other."""
    history = [
        txn(0, [w("x", 1), w("y", 2)], 0, 9, process=0),
        txn(1, [w("x", 2), w("y", 1)], 0, 9, process=1),
        txn(2, [r("x", 2)], 10, 11, process=0),
        txn(3, [r("y", 2)], 10, 11, process=1),
    ]
    options = {"consistency": "read-uncommitted"}
    assert judged(history, "rw-register", **options)[0] is Status.PASS
    found = judged(history, "rw-register", sequential_keys=True, **options)
    assert found[:2] == (Status.FAIL, {"G0"})
    back = [
        txn(i, [step], 2 * i, 2 * i + 1, process=0)
        for i, step in enumerate([w("x", 1), w("x", 2), r("x", 1)])
    ]
    found = judged(back, "rw-register", sequential_keys=True, **options)
    assert found[:2] == (Status.FAIL, {"cyclic-versions"})


def test_an_order_of_transactions_that_the_database_gave_orders_versions():
    history = [txn(0, [r("x", None), w("y", 2)]), txn(1, [w("x", 3), w("y", 4)])]
    options = {"consistency": "serializable"}
    assert judged(history, "rw-register", **options)[0] is Status.PASS
    order = {0: 2, "1": 1}
    found = judged(history, "rw-register", transaction_order=order, **options)
    assert found[:2] == (Status.FAIL, {"G-single"})
    with pytest.raises(ValueError, match="not a number"):
        find_check(
            CheckSpec("transactions", {"model": "rw-register", "transaction_order": {0: "first"}})
        )


def test_an_order_of_what_is_no_transaction_or_with_two_in_one_place_is_none():
    history = [txn(0, [w("y", 2)]), txn(2, [w("y", 4)])]
    status, _, result = judged(history, "rw-register", transaction_order={0: 1, 3: 0})
    assert status is Status.UNKNOWN
    assert "transaction_order has 3" in result.summary
    order = {"model": "rw-register", "transaction_order": {0: 1, 2: 1}}
    with pytest.raises(ValueError, match="twice"):
        find_check(CheckSpec("transactions", order))


def test_that_writes_follow_reads_can_be_left_open():
    history = [
        txn(0, [w("y", 1)]),
        txn(1, [r("y", 1), w("x", 1), w("y", 2)]),
        txn(2, [r("x", 1), r("y", 1)]),
    ]
    options = {"consistency": "snapshot-isolation"}
    assert "G-single" in judged(history, "rw-register", **options)[1]
    unseen = judged(history, "rw-register", wfr_keys=False, **options)
    assert unseen[:2] == (Status.FAIL, {"fractured-read"})
    circle = [txn(0, [r("x", 1), w("x", 2)]), txn(1, [r("x", 2), w("x", 1)])]
    dirty, committed = ({"consistency": f"read-{kind}committed"} for kind in ("un", ""))
    assert judged(circle, "rw-register", **dirty)[0] is Status.PASS
    assert judged(circle, "rw-register", **committed)[1] == {"G1c"}
    given = judged(circle, "rw-register", wfr_keys=True, **dirty)
    assert given[:2] == (Status.FAIL, {"cyclic-versions"})


HIDDEN = [
    txn(0, [w("x", 1), w("y", 1)]),
    txn(1, [w("x", 2), w("y", 2)]),
    txn(2, [r("x", 1), r("y", 2)]),
]
"""Whichever of the two writers was first: no cycle of what is known says that it is wrong."""


def test_no_serial_order_is_found_without_a_cycle_of_known_dependencies():
    for level in ("read-atomic", "consistent-view", "snapshot-isolation", "serializable"):
        assert judged(HIDDEN, "rw-register", consistency=level)[:2] == (
            Status.FAIL,
            {"fractured-read"},
        )
    assert judged(HIDDEN, "rw-register", consistency="read-committed")[0] is Status.PASS
    assert judged(STALE, "rw-register")[1] == {"no-serial-order-realtime"}
    in_process = [txn(i, t.output, 0, 9, process=7) for i, t in enumerate(STALE)]
    assert judged(in_process, "rw-register")[1] == {"no-serial-order-process"}


STALE = [txn(0, [w("x", 1)], 0, 1), txn(1, [w("x", 2)], 2, 3), txn(2, [r("x", 1)], 4, 5)]
SKEW = [
    txn(0, [a("x", 1), a("y", 1)], 0, 1),
    txn(1, [r("x", [1]), r("y", [1]), a("x", 2)], 2, 9),
    txn(2, [r("x", [1]), a("y", 2), r("y", [1, 2])], 2, 9),
    *(txn(i, [a("z", i)], 2, 9) for i in (3, 4)),
]
"""No read shows in which order 3 and 4 are: dependencies alone prove no level of snapshots."""
UNSEEN = [
    txn(0, [w("x", 1), w("y", 1), w("z", 1)]),
    txn(1, [w("y", 5), r("z", None)]),
    txn(2, [r("x", 1), r("y", 5)]),
]
"""0 is before 1, which does not see it: as atomic reads may."""


@pytest.mark.parametrize(
    ("history", "model", "level", "kinds"),
    [
        (STALE, "rw-register", "snapshot-isolation", set()),
        (STALE, "rw-register", "strong-snapshot-isolation", {"no-snapshot-order-realtime"}),
        (SKEW, "list-append", "snapshot-isolation", set()),
        (SKEW, "list-append", "serializable", {"G2", "write-skew"}),
        (UNSEEN, "rw-register", "read-atomic", set()),
        (UNSEEN, "rw-register", "snapshot-isolation", {"no-snapshot-order"}),
    ],
)
def test_an_order_of_snapshots_keeps_what_its_level_keeps_and_no_more(history, model, level, kinds):
    status = Status.FAIL if kinds else Status.PASS
    assert judged(history, model, consistency=level)[:2] == (status, kinds)


def test_the_order_that_proves_a_pass_is_its_certificate():
    result = judged([HIDDEN[0], HIDDEN[2], HIDDEN[1]][::2], "rw-register")[2]
    assert result.status is Status.PASS
    assert sorted(result.certificate["order"]) == [0, 1]


def test_of_repeated_values_no_weaker_level_is_claimed_without_an_order():
    """Write skew on values that were all written twice: snapshot isolation allows it.

    The levels between are open, since no order of versions is known.
    """
    twice = [txn(i, [w("x", 0), w("y", 0)], 0, 1) for i in (0, 1)]
    skew = [txn(2, [r("x", 0), r("y", 0), w("x", 1)]), txn(3, [r("x", 0), r("y", 0), w("y", 1)])]
    after = txn(4, [r("x", 1), r("y", 1)])
    history = [*twice, *skew, after]
    for t in skew:
        assert t.invoke_ns == 0
    assert judged(history, "rw-register", consistency="serializable")[0] is Status.FAIL
    assert judged(history, "rw-register", consistency="snapshot-isolation")[0] is Status.PASS
    assert judged(history, "rw-register", consistency="read-committed")[0] is Status.PASS
    assert judged(history, "rw-register", consistency="update-serializable")[0] is Status.UNKNOWN
    right = [*twice, skew[0]]
    assert judged(right, "rw-register", consistency="snapshot-isolation")[0] is Status.PASS


def test_a_search_that_meets_its_bound_is_open(monkeypatch):
    monkeypatch.setattr(serial, "STEPS_MAX", -1)
    monkeypatch.setattr(serial, "FIRST_STEPS", -1)
    result = judged(HIDDEN[:2], "rw-register")[2]
    assert (result.status, result.statistics["serial_order"]) == (Status.UNKNOWN, "open")
    twice = [txn(i, [w("x", 1)]) for i in (0, 1)]
    assert judged(twice, "rw-register")[0] is Status.UNKNOWN


def test_what_is_not_unique_or_no_transaction_is_not_judged():
    assert judged([txn(0, [a("x", 1)]), txn(1, [a("x", 1)])])[0] is Status.UNKNOWN
    assert judged([txn(0, [a("x", 1), a("x", 2), a("x", 1)])])[0] is Status.UNKNOWN
    status, _, result = judged([txn(0, [["cas", "x", 1]])])
    assert status is Status.UNKNOWN
    assert "neither" in result.summary
    with pytest.raises(ValueError, match="unknown consistency"):
        find_check(CheckSpec("transactions", {"consistency": "acid"}))


def test_components_are_those_of_a_long_cycle():
    ring = {i: [(i + 1) % 5000] for i in range(5000)}
    assert [len(group) for group in components(ring)] == [5000]
    assert sorted(map(len, components({0: [1], 1: [0, 2], 2: []}))) == [1, 2]
