"""How violations are said: the sentences of a package in one place, of the smallest histories."""

import pytest

from checkers import check, check_by
from checkers.evidence import FinalRead
from checkers.guarantees import sessions
from checkers.jepsen import bank, set_full
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.transactions import check as check_transactions
from tests.checkers.evidence.run_evidence import good_run
from tests.checkers.histories import op
from tests.checkers.transactions.test_cycles import a, r, txn, w

B = {"b": 1}
SENTENCES = [
    (
        "register",
        [("write", 1, 1), ("write", 2, 2), ("read", None, 1)],
        (
            "stale read: the read of 1 by process 2 (operation 2) began at 4 ns, after the write of 2 "
            "(operation 1) had ended at 3 ns; 1 was overwritten and never written again"
        ),
    ),
    (
        "register",
        [("write", 1, 1), ("write", 2, 2), ("write", 1, 1), ("read", None, 2)],
        (
            "stale read: the read of 2 by process 3 (operation 3) began at 6 ns, after the write of 1 "
            "(operation 2) had ended at 5 ns; 2 was overwritten and never written again"
        ),
    ),
    (
        "register",
        [("write", 1, 1), ("read", None, None)],
        (
            "stale read: the read of nothing by process 1 (operation 1) began at 2 ns, after the write "
            "of 1 (operation 0) had ended at 1 ns; nothing was there at the beginning and never "
            "written again"
        ),
    ),
    (
        "set",
        [("add", 1, None), ("add", 2, None), ("read", None, [2])],
        (
            "the read of process 2 (operation 2) lacks 1, whose add (operation 0) had been "
            "acknowledged 3 ns before"
        ),
    ),
    (
        "stack",
        [("push", "a", None), ("push", "b", None), ("pop", None, "a")],
        "pop returned 'a' while 'b', pushed later, was still on top",
    ),
    (
        "queue",
        [("enqueue", "a", None), ("enqueue", "b", None), ("dequeue", None, "b")],
        "'b' came out before 'a', which was enqueued first and is still in",
    ),
    (
        "list-append",
        [("append", B, None), ("append", B, None), ("read", None, [B])],
        (
            "no order of what had ended by 5 ns has a place for read() -> [{'b': 1}] of process 2 "
            "(operation 2); the longest order leaves [{'b': 1}, {'b': 1}]"
        ),
    ),
    (
        "counter",
        [("add", 5, None), ("read", None, 4)],
        (
            "the read of process 1 (operation 1) returned 4, which is no multiple of 5, the only "
            "amount that was added"
        ),
    ),
    (
        "kv",
        [("put", "a", "a"), ("append", "b", "b"), ("get", None, "ba")],
        "get() -> 'ba' of process 2 (operation 2): 'b' was appended behind 'a', never before it",
    ),
    (
        "kv",
        [("put", "a", "a"), ("append", "b", "b"), ("get", None, "a")],
        (
            "stale read: get() -> 'a' of process 2 (operation 2) began at 4 ns and lacks 'b', whose "
            "append (operation 1) had ended at 3 ns"
        ),
    ),
    (
        "kv",
        [("put", "a", "a"), ("put", "b", "b"), ("get", None, "a")],
        (
            "stale read: get() -> 'a' of process 2 (operation 2) began at 4 ns and lacks 'b', whose "
            "put (operation 1) had ended at 3 ns"
        ),
    ),
    (
        "topics",
        [("create", {"partitions": 2}, {"id": "a"}), ("describe", None, None)],
        (
            "no order of what had ended by 3 ns has a place for describe() -> nothing of process 1 "
            "(operation 1); the longest order leaves the topic there, id a, partitions 2"
        ),
    ),
    (
        "log",
        [("append", "a", 0), ("append", "b", 1), ("read-all", None, [[0, "a"]])],
        (
            "the read-all of process 2 (operation 2) lacks 'b' (operation 1), which was in the log "
            "before the read began"
        ),
    ),
]


@pytest.mark.parametrize(("model", "rows", "sentence"), SENTENCES)
def test_a_violation_is_said_in_the_users_own_values(model, rows, sentence):
    history = [
        op(i, f, (2 * i, 2 * i + 1), input=given, output=result)
        for i, (f, given, result) in enumerate(rows)
    ]
    result = check(history, model)
    assert result.summary == f"not linearizable: {sentence}"
    assert result.anomalies[0]["explanation"] == sentence


def test_a_violation_says_what_the_object_may_have_held_just_before():
    history = [
        op(0, "write", (0, 1), input=1),
        op(1, "write", (2, 5), input=2),
        op(2, "write", (3, 6), input=3),
        op(3, "read", (4, 7), output=1),
        op(4, "read", (8, 9), output=1),
    ]
    (anomaly,) = check(history, "register").anomalies
    assert anomaly["possible"] == (
        "by these operations alone, just before read() -> 1 of process 4 (operation 4) ended, at "
        "9 ns, there can have been 2 only, which its answer does not fit"
    )


def test_what_no_operation_distinguishes_is_not_listed_as_a_value():
    history = [op(0, "put", (0, 1), input="a"), op(1, "get", (2, 3), output="b")]
    assert "possible" not in check(history, "kv").anomalies[0]


def judged(check_key, rows, **options):
    history = [
        op(i, f, (2 * i, 2 * i + 1), process=process, input=given, output=result)
        for i, (process, f, given, result) in enumerate(rows)
    ]
    return check_key(history, options).anomalies[0]["explanation"]


def test_sessions_name_the_processes_and_what_they_saw_in_which_order():
    rows = [(1, "write", "a", None), (2, "write", "b", None), (3, "read", None, "a")]
    rows += [(3, "read", None, "b"), (4, "read", None, "b"), (4, "read", None, "a")]
    assert judged(sessions.check_key, rows) == (
        "process 3 read 'a' (operation 2) and then read 'b' (operation 3); process 4 read 'b' "
        "(operation 4) and then read 'a' (operation 5): no order of these values allows both"
    )


def test_a_set_names_the_add_that_a_read_lacks():
    rows = [(0, "add", 1, None), (0, "add", 2, None), (1, "read", None, [2])]
    assert judged(set_full.check_key, rows) == (
        "1 is lost: the read of process 1 (operation 2) lacks 1, whose add (operation 0) had ended "
        "3 ns before it began, and no read ever shows it"
    )


def test_a_bank_names_the_read_and_both_sums():
    rows = [(0, "read", None, {"a": 5, "b": 5}), (1, "read", None, {"a": 5, "b": 4})]
    assert judged(bank.check_key, rows, total=10) == (
        "the balances in the read of process 1 (operation 1) add up to 9 instead of 10"
    )


W = [(0, "write", [["w", key, 1]], [["w", key, 1]]) for key in "xyz"]


def saw(process, **values):
    steps = [["r", key, value] for key, value in values.items()]
    return process, "read", [["r", key, None] for key in values], steps


def first_sentence(name, rows):
    history = [
        op(i, f, (2 * i, 2 * i + 1), process=process, input=given, output=result)
        for i, (process, f, given, result) in enumerate(rows)
    ]
    return check_by(history, name).anomalies[0]["explanation"]


def test_a_long_fork_names_who_saw_which_write_and_lacked_which():
    assert first_sentence("long-fork", [*W[:2], saw(1, x=1, y=None), saw(2, x=None, y=1)]) == (
        "process 1 (operation 2) saw the write of 'x' but not that of 'y'; process 2 (operation 3) "
        "saw the write of 'y' but not that of 'x': no order of these writes allows both"
    )
    round_three = [saw(1, x=1, y=None), saw(2, y=1, z=None), saw(3, z=1, x=None)]
    sentence = first_sentence("long-fork", [*W, *round_three])
    assert sentence.endswith(
        "process 3 (operation 5) saw the write of 'z' but not that of 'x': no order of these "
        "writes allows all of it"
    )


def test_sessions_name_what_nobody_wrote_and_what_was_read_too_early():
    assert judged(sessions.check_key, [(1, "write", "a", None), (2, "read", None, B)]) == (
        "process 2 (operation 1) read {'b': 1}, which nobody wrote"
    )
    assert judged(sessions.check_key, [(1, "read", None, "a"), (1, "write", "a", None)]) == (
        "process 1 (operation 0) read 'a' before it wrote it itself (operation 1)"
    )


def without_order(history, model, level):
    (anomaly,) = check_transactions(
        RunInput([], history), {"model": model, "consistency": level}
    ).anomalies
    return anomaly["kind"], anomaly["explanation"]


def test_transactions_without_an_order_say_of_which_kind_none_is():
    skew = [
        txn(0, [r("x", None), w("y", 1)]),
        txn(1, [r("y", None), w("x", 1)]),
        txn(2, [w("x", 1)]),
        txn(3, [r("x", 1)]),
        txn(4, [r("x", None), w("y", 1)]),
    ]
    assert without_order(skew, "rw-register", "serializable") == (
        "no-serial-order",
        (
            "the 5 transactions cannot have run one after another in any order and read what they "
            "read (every order was tried)"
        ),
    )
    both_write_x = [
        txn(0, [r("y", []), a("z", 1), a("x", 1)]),
        txn(1, [r("z", []), a("y", 2), a("x", 2)]),
    ]
    assert without_order(both_write_x, "list-append", "snapshot-isolation") == (
        "no-snapshot-order",
        (
            "the 2 transactions cannot have run each on a snapshot, committing in any order without "
            "two concurrent writers of one key and read what they read (every order was tried)"
        ),
    )
    steps = [w("x", 1), w("x", 2), w("x", 1), r("x", 2)]
    stale = [txn(i, [step], 2 * i, 2 * i + 1) for i, step in enumerate(steps)]
    assert without_order(stale, "rw-register", "strict-serializable") == (
        "no-serial-order-realtime",
        (
            "the 4 transactions cannot have run one after another in any order that keeps real "
            "time and read what they read (every order was tried)"
        ),
    )


def test_what_is_lost_is_counted_by_topics_with_the_nodes_that_lack_it():
    creates = [
        op(i, "create", (i, i + 1), key=f"t{i}", input={"partitions": 1}, output={"id": f"i{i}"})
        for i in range(198)
    ]

    def summary(**topics_of):
        reads = {
            node: FinalRead(node, 6, {f"t{i}": {"id": f"i{i}", "partitions": 1} for i in there}, {})
            for node, there in topics_of.items()
        }
        run = good_run(operations=creates, final_reads=reads)
        return run_check(CheckSpec("durability", {"workload": "topics"}), run).summary

    none, all_ = range(0), range(198)
    on_no_node = summary(n1=none, n2=none, n3=none)
    assert on_no_node.startswith("198 topics lost, on all 3 nodes; first: n1: operation 0 ")
    on_two_nodes = summary(n1=all_, n2=range(197), n3=all_)
    assert on_two_nodes.startswith("1 topic divergent, on n1, n2; 1 topic lost, on n2; first: n2: ")
