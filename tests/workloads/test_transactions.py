"""Workload `transactions` against brokers that are scripted."""

from itertools import islice
from random import Random

import pytest

from checkers import Status
from checkers.history import EventType
from checkers.registry import RunInput
from checkers.transactions import atomic_appends
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import parse_header
from cluster.node.ports import Failure
from cluster.node.protocol import data_messages as d
from cluster.node.protocol import messages as m
from cluster.node.protocol import transaction_messages as t
from harness.errors import PlanError
from harness.plan.document import from_document
from tests.checkers.histories import op
from tests.workloads import test_log
from tests.workloads.scripted_brokers import LOST
from tests.workloads.transactional_brokers import TransactionalBrokers
from workloads.base import Op, Role
from workloads.registry import workload_named

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO
X, Y = "t0-0", "t0-1"


def perform(brokers, *ops, **options):
    """Let one client perform operations; returns the completions."""
    return test_log.perform(brokers, *ops, workload="transactions", **options)


def a(key, value):
    return ["append", key, str(value)]


def r(key, *values):
    return ["r", key, [str(value) for value in values] or None]


def txn(*steps, f="txn"):
    return Op(f, None, list(steps))


def read(*keys, f="read"):
    return Op(f, None, [["r", key, None] for key in keys])


def shown(completion):
    return [[int(value) for value in step[2]] for step in completion.value]


def end(error, *, served=False, **producer):
    """A rule by which brokers answer an EndTxn."""
    answer = t.EndTxnResponse(throttle_time=m.NO_THROTTLE, error_code=error, **producer)
    return [t.EndTxnRequest, answer, served]


def judged(ops, done):
    """Return the verdict on operations that one process after the other performed."""
    history = [
        op(
            index,
            asked.f,
            (2 * index, 2 * index + 1),
            input=asked.value,
            output=completion.value,
            type=completion.type,
            process=index,
            error=completion.error,
        )
        for index, (asked, completion) in enumerate(zip(ops, done, strict=True))
    ]
    result = atomic_appends.check(RunInput([], history), {})
    return result.status, {anomaly["kind"] for anomaly in result.anomalies}


END = (read(X, f="read-all"), read(Y, f="read-all"))


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_is_seen_once_it_is_committed_and_reads_come_before_its_appends(version):
    ops = txn(r(X), a(X, 1), a(Y, 2)), txn(r(X), a(X, 3)), read(X, Y)
    first, second, last = perform(TransactionalBrokers(version), *ops)
    assert first.value == [["r", X, []], a(X, 1), a(Y, 2)]
    assert (second.type, second.value[0]) == (OK, r(X, 1))
    assert shown(last) == [[1, 3], [2]]


@pytest.mark.parametrize("version", [1, 2])
def test_an_abort_is_a_failure_that_read_uncommitted_alone_sees(version):
    ops = txn(a(X, 1), f="abort"), txn(a(X, 2)), read(X), read(X, f="read-uncommitted")
    done = perform(TransactionalBrokers(version), *ops)
    assert [(each.type, each.error) for each in done[:2]] == [(FAIL, "aborted"), (OK, None)]
    assert [shown(each) for each in done[2:]] == [[[2]], [[1, 2]]]


def test_the_first_protocol_adds_each_partition_once_and_the_second_none():
    brokers = TransactionalBrokers(1)
    perform(brokers, txn(a(X, 1), a(X, 2), a(Y, 3)), txn(a(X, 4)))
    assert len(brokers.sent(t.AddPartitionsToTxnRequest)) == 3
    brokers = TransactionalBrokers(2)
    perform(brokers, txn(a(X, 1), a(Y, 2)))
    assert not brokers.sent(t.AddPartitionsToTxnRequest)


def test_sequences_begin_anew_with_an_epoch():
    brokers = TransactionalBrokers(2)
    perform(brokers, txn(a(X, 1), a(X, 2)), txn(a(X, 3)))
    headers = [parse_header(p.partitions[0].records) for p in brokers.sent(d.ProduceRequest)]
    assert [(h.producer_epoch, h.base_sequence) for h in headers] == [(0, 0), (0, 1), (1, 0)]


def c(key, offset):
    return ["commit", key, offset]


OFFSET = read(X, f="offsets")


@pytest.mark.parametrize("version", [1, 2])
def test_an_offset_is_committed_with_its_transaction_and_not_with_one_that_aborts(version):
    ops = (
        txn(c(X, 11), a(X, 1)),
        OFFSET,
        txn(c(X, 12), a(X, 2), f="abort"),
        txn(c(X, 13), a(X, 3), a(X, 4), f="zombie"),
        OFFSET,
        *END,
    )
    done = perform(TransactionalBrokers(version), *ops)
    assert [done[place].value for place in (1, 4)] == [[["r", X, 11]]] * 2
    assert judged(ops, done) == (Status.PASS, set())


def test_an_offset_is_not_looked_up_while_a_transaction_that_commits_it_is_open():
    brokers = TransactionalBrokers(2)
    brokers.rules += [[t.EndTxnRequest, LOST, False] for _ in range(40)]
    done = perform(brokers, txn(c(X, 11), a(X, 1)), OFFSET)
    assert [(each.type, each.error) for each in done][1] == (FAIL, "unstable_offset_commit")


def test_an_offset_of_an_aborted_transaction_that_is_visible_is_reported():
    brokers = TransactionalBrokers(2)
    brokers.forgets = True
    ops = txn(c(X, 11), a(X, 1)), txn(c(X, 12), a(X, 2), f="abort"), OFFSET, *END
    assert judged(ops, perform(brokers, *ops)) == (Status.FAIL, {"aborted-offset"})


@pytest.mark.parametrize("version", [1, 2])
def test_a_zombie_is_fenced_and_its_successor_goes_on(version):
    ops = txn(a(X, 1), a(Y, 2), f="zombie"), txn(a(X, 3)), *END
    done = perform(TransactionalBrokers(version), *ops)
    assert (done[0].type, done[0].error) == (FAIL, "producer_fenced")
    assert [shown(each) for each in done[2:]] == [[[3]], [[]]]
    assert judged(ops, done) == (Status.PASS, set())


def test_a_zombie_whose_commit_is_acknowledged_is_reported():
    brokers = TransactionalBrokers(2)
    brokers.rules.append(end(ErrorCode.none, producer_id=7, producer_epoch=9))
    ops = txn(a(X, 1), f="zombie"), *END
    done = perform(brokers, *ops)
    assert done[0].type is OK
    assert judged(ops, done) == (Status.FAIL, {"zombie-commit"})


def outlive(refusal, ends_in=ErrorCode.producer_fenced):
    """A batch is acknowledged once more after the pause, and then refused."""
    brokers = TransactionalBrokers(2)
    for answer, served in ((ErrorCode.none, True), (ErrorCode.none, False), (refusal, False)):
        response = d.ProduceResponse((d.ProduceResult("t0", 0, answer, 0),))
        brokers.rules.append([d.ProduceRequest, response, served])
    brokers.rules.append(end(ends_in, producer_id=7, producer_epoch=9))
    ops = txn(a(X, 1), f="outlive"), txn(a(X, 3)), *END
    done = perform(brokers, *ops, transaction_timeout_ms=1000)
    return brokers, done, judged(ops, done)


def test_who_outlives_its_transaction_sends_its_batch_again_and_is_fenced():
    brokers, done, verdict = outlive(ErrorCode.invalid_producer_epoch)
    first, again, refused, _ = (
        each.partitions[0].records for each in brokers.sent(d.ProduceRequest)
    )
    assert [parse_header(each).base_sequence for each in (first, again, refused)] == [0, 0, 0]
    assert (done[0].type, done[0].error, done[1].type) == (FAIL, "invalid_producer_epoch", OK)
    assert shown(done[2]) == [[3]]
    assert verdict == (Status.PASS, set())


def test_a_refusal_that_ends_who_outlives_its_transaction_is_reported():
    """KAFKA-19690."""
    assert outlive(ErrorCode.invalid_txn_state)[2] == (Status.FAIL, {"fatal-refusal"})


def test_a_commit_of_who_outlives_its_transaction_is_reported():
    found = outlive(ErrorCode.invalid_producer_epoch, ErrorCode.none)
    assert found[1][0].type is OK
    assert found[2] == (Status.FAIL, {"zombie-commit"})


def test_no_commit_is_sent_for_who_is_refused_for_another_reason():
    brokers, done, _ = outlive(ErrorCode.transaction_abortable)
    assert (done[0].type, done[0].error) == (FAIL, "transaction_abortable")
    assert [each.producer_epoch for each in brokers.sent(t.EndTxnRequest)] == [1]


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [("txn-late", "abort", "aborted-read"), ("abort-late", "txn", "torn-transaction")],
)
def test_a_late_end_ends_the_next_transaction_unless_each_has_an_epoch(first, second, kind):
    """KAFKA-17754."""
    ops = txn(a(X, 0)), txn(a(X, 1), f=first), txn(a(X, 2), a(Y, 3), f=second), *END
    for version, verdict in ((1, (Status.FAIL, {kind})), (2, (Status.PASS, set()))):
        brokers = TransactionalBrokers(version)
        done = perform(brokers, *ops)
        assert len(brokers.sent(t.EndTxnRequest)) == 4 * (version == 2)
        assert judged(ops, done) == verdict


@pytest.mark.parametrize(
    ("failure", "served", "kind"),
    [
        (Failure.NOT_SENT, False, OK),  # it is sent again
        (LOST, True, INFO),  # the second one is refused, as the first one happened
        (LOST, False, OK),
    ],
)
def test_a_commit_without_an_answer_is_asked_again_and_never_called_failed(failure, served, kind):
    brokers = TransactionalBrokers(2)
    brokers.rules.append([t.EndTxnRequest, failure, served])
    (done,) = perform(brokers, txn(a(X, 1)))
    assert done.type is kind


@pytest.mark.parametrize("error", ["not_coordinator", "coordinator_load_in_progress"])
def test_a_commit_that_a_coordinator_appended_as_it_moved_is_never_called_failed(error):
    brokers = TransactionalBrokers(2)
    brokers.rules.append(end(ErrorCode[error], served=True))
    (done,) = perform(brokers, txn(a(X, 1)))
    assert (done.type, done.error) == (INFO, "producer_fenced")


def test_a_commit_that_is_refused_at_once_has_failed():
    brokers = TransactionalBrokers(2)
    brokers.rules.append(end(ErrorCode.producer_fenced))
    done, after = perform(brokers, txn(a(X, 1)), txn(a(X, 2)))
    assert (done.type, done.error, after.type) == (FAIL, "producer_fenced", OK)
    assert len(brokers.sent(d.InitProducerIdRequest)) == 2


def test_a_coordinator_that_moved_is_found_again():
    brokers = TransactionalBrokers(2)
    brokers.rules.append(end(ErrorCode.not_coordinator))
    (done,) = perform(brokers, txn(a(X, 1)))
    assert done.type is OK
    assert len(brokers.sent(t.FindCoordinatorRequest)) == 2


def test_a_transaction_of_which_an_append_fails_has_failed_and_its_id_is_taken_anew():
    brokers = TransactionalBrokers(2)
    refused = d.ProduceResponse((d.ProduceResult("t0", 1, ErrorCode.transaction_abortable),))
    brokers.rules.append([d.ProduceRequest, refused, False])
    ops = txn(a(Y, 1)), txn(a(X, 2)), *END
    done = perform(brokers, *ops)
    assert [each.type for each in done[:2]] == [FAIL, OK]
    assert not [e for e in brokers.sent(t.EndTxnRequest) if e.producer_epoch == 0]
    assert judged(ops, done) == (Status.PASS, set())


def test_the_same_batch_is_sent_again_while_the_transaction_before_is_not_over():
    brokers = TransactionalBrokers(2)
    wait = d.ProduceResponse((d.ProduceResult("t0", 0, ErrorCode.concurrent_transactions),))
    brokers.rules.append([d.ProduceRequest, wait, False])
    (done,) = perform(brokers, txn(a(X, 1)))
    first, again = (each.partitions[0].records for each in brokers.sent(d.ProduceRequest))
    assert done.type is OK
    assert first == again


def test_a_last_read_waits_for_what_is_open_and_says_where_it_is():
    brokers = TransactionalBrokers(2)
    brokers.rules += [[t.EndTxnRequest, LOST, False] for _ in range(41)]
    done = perform(brokers, txn(a(X, 1)), read(X, f="read-all"), read(Y, f="read-all"))
    assert [each.type for each in done] == [INFO, FAIL, OK]
    assert (done[1].error, done[1].offset) == ("open-transaction", 0)


def operations(role, count=400, **options):
    stream = workload_named("transactions", options).operations(3, Random(1), role)
    return list(islice(stream, count))


def test_values_are_unique_and_reads_come_first():
    ops = operations(Role.MIXED)
    values = [step[2] for each in ops for step in each.value if step[0] == "append"]
    assert len(values) == len(set(values)) > 200
    for each in ops:
        kinds = [step[0] for step in each.value]
        assert kinds == sorted(kinds, reverse=True)
    assert {each.f for each in ops} == {
        *("txn", "abort", "zombie", "txn-late", "abort-late", "read", "read-uncommitted"),
        "offsets",
    }
    offsets = [step[2] for each in ops for step in each.value if step[0] == "commit"]
    assert len(offsets) == len(set(offsets)) > 100
    assert {offset % 1000 for offset in offsets} == {3}


def test_transactions_that_outlive_their_time_out_are_drawn_where_a_plan_has_them():
    assert "outlive" in {each.f for each in operations(Role.WRITER, outlive_fraction=0.5)}
    java = operations(Role.WRITER, outlive_fraction=0.5, client="java")
    assert "outlive" not in {each.f for each in java}
    assert not [step for each in java for step in each.value if step[0] == "commit"]


def test_readers_read_and_writers_write():
    assert {each.f for each in operations(Role.READER)} == {"read", "read-uncommitted"}
    assert not {each.f for each in operations(Role.WRITER)} & {"read", "read-uncommitted"}


@pytest.mark.parametrize("system", ["kraft", "mixed"])
def test_our_node_has_no_transactions(system):
    with pytest.raises(PlanError, match=r"no groups or transactions; .* apache-kafka"):
        from_document({"workload": "transactions", "system": system})
