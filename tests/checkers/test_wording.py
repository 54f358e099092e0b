"""How violations are said: the sentences of a package in one place, of the smallest histories."""

import json
from pathlib import Path

import pytest

from checkers import check
from checkers.evidence import FinalRead
from checkers.guarantees import sessions
from checkers.jepsen import set_full
from checkers.registry import CheckSpec, RunInput, run_check
from checkers.transactions import check as check_transactions
from tests.checkers.evidence.run_evidence import good_run
from tests.checkers.histories import op, sequence
from tests.checkers.transactions.test_cycles import a, r, txn, w

GOLDEN = Path(__file__).parent / "wording.jsonl"
B = {"b": 1}
SENTENCES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
SMALLEST = [row for row in SENTENCES if "rows" in row]
SAID = {row["name"]: row["sentence"] for row in SENTENCES if "rows" not in row}


@pytest.mark.parametrize("row", SMALLEST, ids=lambda row: row["name"])
def test_a_violation_is_said_in_the_users_own_values(row):
    sentence = row["sentence"]
    result = check(sequence(*row["rows"]), row["name"])
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
    assert anomaly["possible"] == SAID["possible"]


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
    assert judged(sessions.check_key, rows) == SAID["sessions"]


def test_a_set_names_the_add_that_a_read_lacks():
    rows = [(0, "add", 1, None), (0, "add", 2, None), (1, "read", None, [2])]
    assert judged(set_full.check_key, rows) == SAID["set-full"]


def test_sessions_name_what_nobody_wrote_and_what_was_read_too_early():
    assert (
        judged(sessions.check_key, [(1, "write", "a", None), (2, "read", None, B)])
        == SAID["unwritten"]
    )
    assert (
        judged(sessions.check_key, [(1, "read", None, "a"), (1, "write", "a", None)])
        == SAID["early"]
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
        SAID["no-serial-order"],
    )
    both_write_x = [
        txn(0, [r("y", []), a("z", 1), a("x", 1)]),
        txn(1, [r("z", []), a("y", 2), a("x", 2)]),
    ]
    assert without_order(both_write_x, "list-append", "snapshot-isolation") == (
        "no-snapshot-order",
        SAID["no-snapshot-order"],
    )
    steps = [w("x", 1), w("x", 2), w("x", 1), r("x", 2)]
    stale = [txn(i, [step], 2 * i, 2 * i + 1) for i, step in enumerate(steps)]
    assert without_order(stale, "rw-register", "strict-serializable") == (
        "no-serial-order-realtime",
        SAID["no-serial-order-realtime"],
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
