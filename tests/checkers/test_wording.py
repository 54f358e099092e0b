"""How violations are said: the sentences of a package in one place, of the smallest histories."""

import pytest

from checkers import check
from tests.checkers.histories import op

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
