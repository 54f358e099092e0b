"""A compact battery that a broken checker does not survive: known verdicts, then brute force."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from checkers import Status, check, transactions
from checkers.evidence.assisted import resolve
from checkers.guarantees import growth, sessions
from checkers.history import EventType
from checkers.linearizability.certificates import certificate_lines, verify_lines
from checkers.registry import CheckSpec, RunInput, check_keys, find_check, run_check
from porcupine_py.columns import from_operations
from porcupine_py.kernels import load
from porcupine_py.models import model_named, relevant
from porcupine_py.search import certificate, encoding, race
from porcupine_py.search.outcome import Budget, Window
from tests.checkers.evidence.run_evidence import good_log, record, with_log
from tests.checkers.evidence.test_assisted import LOST, logs_of
from tests.checkers.guarantees.test_sessions import script
from tests.checkers.histories import op, read, repeated_strings, sequence, write
from tests.checkers.linearizability import differential
from tests.checkers.linearizability.test_searches import SEARCHES, crowd
from tests.checkers.transactions.test_cycles import LISTS, REGISTERS

PASS, FAIL = Status.PASS, Status.FAIL
CASES = 25
"""Histories of a kind."""


def battery() -> Iterator[str]:
    """Yield a complaint for everything that a right checker would have judged otherwise."""
    for part in (_known, _proofs, _whole_runs, _narrow, _random):
        try:
            yield from part()
        except Exception as error:  # noqa: BLE001  (a checker that dies is noticed as well)
            yield f"{part.__name__} died: {type(error).__name__}: {error}"


def _cas(index, pair, begin, end, **fields):
    return op(index, "cas", (begin, end), input=pair, **fields)


KNOWN = {
    "closed intervals": ([write(0, 1, 0, 5), read(1, None, 5, 6)], "register", PASS),
    "closed intervals, searched": (
        [write(0, 1, 0, 5), write(2, 1, 0, 5), read(1, None, 5, 6)],
        "register",
        PASS,
    ),
    "apart": ([write(0, 1, 0, 4), read(1, None, 5, 6)], "register", FAIL),
    "late effect": (
        [write(0, 1, 0, None), read(1, None, 5, 6), read(2, 1, 90, 91)],
        "register",
        PASS,
    ),
    "unknown writes of two values": (
        [
            *(write(i, i, 0, None) for i in (1, 2)),
            *(write(i, 3, 0, 1) for i in (3, 4)),
            *(read(i, value, 2 * i, 2 * i + 1) for i, value in ((5, 2), (6, 1))),
        ],
        "register",
        PASS,
    ),
    "never": ([write(0, 1, 0, None), read(1, None, 5, 6)], "register", PASS),
    "failed": ([write(0, 1, 0, 1, type=EventType.FAIL), read(1, 1, 5, 6)], "register", FAIL),
    "types": ([write(0, 1, 0, 1), read(1, True, 5, 6)], "register", FAIL),
    "phantom": ([write(0, 1, 0, 1), read(1, 2, 5, 6)], "cas-register", FAIL),
    "initial": ([read(0, 7, 0, 1)], "cas-register", FAIL),
    "refused cas": (
        [write(0, 1, 0, 1), _cas(1, [1, 2], 5, 6, type=EventType.FAIL)],
        "cas-register",
        FAIL,
    ),
    "helped by what another must not meet": (
        [
            _cas(0, [0, 1], 2, 6, type=EventType.FAIL),
            write(1, 1, 5, None),
            _cas(2, [None, 1], 5, 7, type=EventType.FAIL),
            _cas(4, [None, 0], 7, 13, type=EventType.FAIL),
            write(3, 0, 9, 11),
            _cas(5, [1, 0], 11, 15, type=EventType.FAIL),
        ],
        "cas-register",
        PASS,
    ),
    "what an unknown cas did is read": (
        [_cas(0, [1, 0], 5, None), read(1, 0, 7, 8)],
        "cas-register",
        FAIL,
    ),
    "strings, searched": (repeated_strings("ab"), "kv", PASS),
    "strings, one of them wrong": (repeated_strings("ba"), "kv", FAIL),
    "append of nothing": (
        sequence(("append", "a"), ("get", None, "a"), ("append", ""), ("get", None, "a")),
        "kv",
        PASS,
    ),
    "two classes": (
        [
            write(0, 1, 0, None),
            write(1, 2, 0, None),
            write(2, 1, 0, 1),
            read(3, 1, 2, 3),
            read(4, 2, 4, 5),
            read(5, 1, 6, 7),
            read(6, 2, 8, 9),
        ],
        "cas-register",
        FAIL,
    ),
    "the second of two that may have been": (
        [
            op(0, "append", (0, None), input="a"),
            op(1, "append", (1, None), input="b"),
            op(2, "get", (4, 5), output="b"),
        ],
        "kv",
        PASS,
    ),
    "a put that nothing hides": (
        [
            op(0, "put", (0, 5), input="a"),
            op(1, "append", (0, 5), input="b"),
            op(2, "get", (6, 7), output="b"),
        ],
        "kv",
        FAIL,
    ),
    "offsets lie": (
        [
            op(0, "put", (0, 1), input="a", offset=9),
            op(1, "put", (2, 3), input="b", offset=3),
            op(2, "get", (4, 5), output="b"),
            op(3, "put", (6, 7), input="b", offset=10),  # twice, so that chains do not judge
        ],
        "kv",
        PASS,
    ),
    "lost element": (sequence(("add", 1), ("read", None, [])), "set", FAIL),
    "unread element": (sequence(("add", 1), ("add", 2), ("read", None, [2])), "set", FAIL),
    "diverging reads": (
        [
            op(0, "append", (0, 9), input=1),
            op(1, "append", (0, 9), input=2),
            op(2, "read", (0, 9), output=[1, 2]),
            op(3, "read", (0, 9), output=[2]),
        ],
        "list-append",
        FAIL,
    ),
    "counted at once": (
        [op(0, "add", (0, 5), input=1), op(1, "read", (5, 6), output=0)],
        "counter",
        PASS,
    ),
    "blocks": (
        sequence(("allocate", None, [0, 10]), ("allocate", None, [5, 10])),
        "producer-ids",
        FAIL,
    ),
    "log with a hole": (
        [op(i, "append", (i, i), input=i, output=i) for i in range(3)]
        + [op(9, "read", (20, 21), output=[[0, 0], [2, 2]])],
        "log",
        FAIL,
    ),
    "a queue that is empty at the end of a look": (
        [
            op(0, "enqueue", (0, 1), input=1),
            op(1, "dequeue", (3, 6)),
            op(2, "dequeue", (4, 5), output=1),
        ],
        "queue",
        PASS,
    ),
    "topic of another id": (
        sequence(("create", None, "a"), ("describe", None, {"id": "b"})),
        "topics",
        FAIL,
    ),
}


def _known() -> Iterator[str]:
    for name, (operations, model, expected) in KNOWN.items():
        found = check(operations, model)
        if found.status is not expected:
            yield f"{name}: {found.status}: {found.summary}"
    two = [*KNOWN["never"][0], *(replace(o, key="b", index=o.index + 9) for o in KNOWN["apart"][0])]
    if check(two, "register").status is not FAIL:
        yield "the second of two keys is wrong"


def _proofs() -> Iterator[str]:
    """A verifier must refuse."""
    right = [write(0, 1, 0, 1), write(1, 2, 2, 3)]
    model = model_named("register")
    refused = [
        ("real time", lambda: certificate.verify_order(right, model, [1, 0])),
        ("missing", lambda: certificate.verify_order(right, model, [0])),
        ("illegal", lambda: certificate.verify_order([read(0, 5, 0, 1)], model, [0])),
        ("right", lambda: certificate.verify_window(right, model, Window((0, 1)))),
        (
            "torn",
            lambda: certificate.verify_window([*right, read(2, 2, 5, 6)], model, Window((0, 2))),
        ),
    ]
    for name, verify in refused:
        try:
            verify()
        except certificate.RefusedError:
            continue
        yield f"a proof is accepted that is none: {name}"


def _whole_runs() -> Iterator[str]:
    spec = CheckSpec("linearizable", {"model": "register"})
    good = [write(0, 1, 0, 1, key="a")]
    bad = [replace(o, key="b", index=o.index + 5) for o in KNOWN["apart"][0]]
    run = RunInput([], [*good, *bad])
    if run_check(spec, run).status is not FAIL:
        yield "one of two keys is wrong"
    lines = certificate_lines(check_keys(find_check(spec), spec, run))
    if verify_lines(lines, run.operations, model_named("register")):
        yield "its own certificates are refused"
    for model, cases in (("list-append", LISTS), ("rw-register", REGISTERS)):
        for kind, history in cases.items():
            found = transactions.check(RunInput([], history), {"model": model})
            if kind not in {anomaly["kind"] for anomaly in found.anomalies}:
                yield f"{model}: {kind} is not seen"
    back = script([("write", 1), ("write", 2)], [("read", 2), ("read", 1)])
    if sessions.check_key(back, {}).status is not FAIL:
        yield "reads go back"
    lists = {"went back": [[1], []], "skipped": [[2]]}
    for name, seen in lists.items():
        appends = [op(i, "append", (i, i), input=i, node="n1") for i in (1, 2)]
        reads = [op(5 + i, "read", (5 + i, 5 + i), output=v, node="n2") for i, v in enumerate(seen)]
        if growth.check_key([*appends, *reads], {"model": "list-append"}).status is not FAIL:
            yield f"a list {name} at a node that lags"
    open_ = resolve([LOST], logs_of([("k", "b"), ("k", "a")], committed=1)).operations
    if open_[0].type is not EventType.INFO:
        yield "what was not committed is taken as an effect"
    divergent = with_log("n2", [*good_log("n2")[:5], record("n2", 5, epoch=2)])
    kinds = {a["kind"] for a in run_check(CheckSpec("invariants"), divergent).anomalies}
    if "committed-prefix" not in kinds:
        yield "logs of different epochs agree"


def _narrow() -> Iterator[str]:
    """The race may begin with a frontier that is far too narrow."""
    for seed in range(60):
        operations = crowd(Random(seed), 25, 5, 3)
        model = model_named("cas-register")
        encoded = encoding.encode(from_operations(operations), model)
        status = race.race(load(), encoded, [encoded.initial], Budget(), ["frontier"]).status
        if status is not SEARCHES["compiled wgl"](relevant(operations, model), model).status:
            yield f"race {seed}"


def _random() -> Iterator[str]:
    for place in differential.kinds():
        yield from differential.judged(CASES, 0, place)[0]
