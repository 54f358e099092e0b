"""Evidence resolves indeterminate operations, and never makes a wrong history right."""

from dataclasses import replace
from random import Random

import pytest

from checkers import Status, load_history, pair
from checkers.evidence.assisted import OPEN_END_NS, resolve
from checkers.history import EventType
from checkers.linearizability.linearizable import judge
from checkers.registry import CheckSpec, RunInput, run_check
from porcupine_py.models import model_named
from tests.checkers.evidence.run_evidence import NODES, good_run, high_watermark, record, trace
from tests.checkers.histories import read, write
from tests.checkers.linearizability.oracle import is_linearizable
from tests.checkers.linearizability.test_corpus_verdicts import JUDGED, expected, folder  # noqa: F401  (a fixture)

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO
PREFIX = "kraftprobe.register."


def logs_of(values, committed=None, begin=0):
    """Evidence of three nodes with these (key, value) pairs in their logs."""
    committed = begin + len(values) if committed is None else committed
    logs = {
        node: [
            record(node, begin + i, kind="ConfigRecord", name=f"{PREFIX}{key}", value=value)
            for i, (key, value) in enumerate(values)
        ]
        for node in NODES
    }
    traces = {node: trace(node, high_watermark(committed)) for node in NODES}
    return replace(good_run().evidence, logs=logs, traces=traces)


LOST = write(0, "a", 0, None, key="k")


def types(operations, evidence):
    return [o.type for o in resolve(operations, evidence).operations]


def test_a_committed_write_took_effect_at_its_offset():
    resolved = resolve([LOST], logs_of([("k", "b"), ("k", "a")])).operations
    assert [(o.type, o.offset, o.complete_ns) for o in resolved] == [(OK, 1, OPEN_END_NS)]


def test_a_committed_topic_is_what_an_add_did_and_a_missing_one_proves_nothing():
    added, evidence = replace(LOST, f="add", key="a", input=None), logs_of([("k", "b")])
    topics = {node: [record(node, 0, kind="TopicRecord", name="a")] for node in NODES}
    [done] = resolve([added], replace(evidence, logs=topics)).operations
    assert (done.type, done.offset) == (OK, 0)
    assert types([added], evidence) == [INFO]


def test_a_write_that_is_in_no_log_never_was():
    assert types([LOST], logs_of([("k", "b")])) == [FAIL]


def test_what_is_written_but_not_committed_stays_open():
    assert types([LOST], logs_of([("k", "b"), ("k", "a")], committed=1)) == [INFO]


@pytest.mark.parametrize(
    "evidence",
    [
        None,
        logs_of([("k", "b")], begin=5),
        replace(logs_of([("k", "b")]), logs={"n1": logs_of([("k", "b")]).logs["n1"]}),
    ],
)
def test_without_whole_logs_no_write_is_proved_to_have_failed(evidence):
    assert types([LOST], evidence) == [INFO]


def test_logs_that_lack_an_acknowledged_write_prove_no_write_failed():
    acknowledged = write(1, "c", 0, 5, key="k")
    assert types([LOST, acknowledged], logs_of([("k", "b")])) == [INFO, OK]
    assert types([LOST, acknowledged], logs_of([("k", "c")])) == [FAIL, OK]


def test_a_record_that_cannot_be_decoded_may_be_the_one():
    evidence = logs_of([("k", "b")])
    malformed = [*evidence.logs["n1"], record("n1", 1, kind="undecodable", hex="00")]
    assert types([LOST], replace(evidence, logs=dict(evidence.logs) | {"n1": malformed})) == [INFO]


def test_logs_that_differ_resolve_nothing():
    evidence = logs_of([("k", "a")])
    divergent = dict(evidence.logs) | {"n2": [replace(evidence.logs["n2"][0], batch_crc=7)]}
    assert types([LOST], replace(evidence, logs=divergent)) == [INFO]


def test_a_value_that_is_not_unique_resolves_nothing():
    assert types([LOST, write(1, "a", 0, 5, key="k")], logs_of([("k", "a")])) == [INFO, OK]
    assert types([LOST], logs_of([("k", "a"), ("k", "a")])) == [INFO]
    assert types([LOST], logs_of([("other", "a")])) == [FAIL]


RUN = RunInput(
    [],
    [write(1, "b", 0, 1, key="k"), replace(LOST, invoke_ns=2), read(2, "b", 50, 60, key="k")],
    logs_of([("k", "b"), ("k", "a")]),
)


def test_a_switch_turns_it_off():
    late = RunInput([], [*RUN.operations, read(3, "a", 70, 80, key="k")], logs_of([("k", "b")]))
    assert run_check(CheckSpec("linearizable", {"model": "register"}), late).status is Status.FAIL
    off = CheckSpec("linearizable", {"model": "register", "evidence": False})
    assert run_check(off, late).status is Status.PASS


def evidence_of(operations, rnd):
    """Evidence about a history: what took effect is chosen at random, so that most of it is false."""
    writes = [o for o in operations if o.f == "write" and o.type is not FAIL]
    shares = {OK: 0.95, INFO: 0.5}
    chosen = [("k", o.input) for o in writes if rnd.random() < shares[o.type]]
    rnd.shuffle(chosen)
    return logs_of(chosen, committed=rnd.randint(0, len(chosen)))


@pytest.mark.slow
def test_no_evidence_turns_a_wrong_history_right():
    wrong = more = 0
    for case in range(3_000):
        rnd = Random(case)
        operations = history(rnd)
        before = is_linearizable(operations, "register")
        resolved = resolve(operations, evidence_of(operations, rnd)).operations
        after = is_linearizable(resolved, "register")
        assert before or not after, operations
        status = judge(resolved, model_named("register")).status
        assert (status is Status.PASS) == after
        wrong += not before
        more += before and not after
    assert wrong > 300
    assert more > 20, "lying logs must be noticed to test anything"


def history(rnd):
    """Writes of unique values and reads, many of them indeterminate."""
    operations = []
    for index in range(rnd.randint(2, 6)):
        begin = rnd.randint(0, 12)
        end = None if rnd.random() < 0.35 else begin + rnd.randint(0, 5)
        if rnd.random() < 0.5:
            operations.append(write(index, f"v{index}", begin, end, key="k"))
        else:
            value = rnd.choice([None, *(f"v{i}" for i in range(6))])
            operations.append(read(index, value, begin, end, key="k"))
    return sorted(operations, key=lambda o: (o.invoke_ns, o.index))


@pytest.mark.slow
def test_no_evidence_turns_a_wrong_history_of_the_corpus_right(folder):  # noqa: F811  (a fixture)
    wrong = [n for n in JUDGED if n.startswith("etcd") and not expected()[n]["valid"]]
    assert len(wrong) > 20
    for name in wrong[::6]:
        operations = [
            replace(o, key="k") for o in pair(load_history(folder / expected()[name]["file"]))
        ]
        resolved = resolve(operations, evidence_of(operations, Random(name))).operations
        result = judge(resolved, model_named("cas-register"), time_limit_s=20)
        assert result.status is Status.FAIL, name
