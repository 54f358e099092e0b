"""A snapshot is what the log below it adds up to: by rules that are not the node's own."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.evidence import Snapshot
from checkers.nodes.snapshots import differences, image_of
from checkers.registry import CheckSpec, run_check
from checkers.verdict import Status
from cluster.node.controller.metadata.image_writer import frozen_copy, image_records
from cluster.node.controller.metadata.state import committed_state
from cluster.node.controller.records import record_to_json
from cluster.node.controller.records.kinds import PartitionChangeRecord
from tests.checkers.evidence.run_evidence import (
    NODES,
    good_run,
    high_watermark,
    record,
    trace,
    with_evidence,
)
from tests.cluster.node.controller.test_snapshots import BEGUN, TOPIC_IDS, fitting, records


def placed(record):
    """A change of replicas that says where they are, as each of a controller does."""
    if not isinstance(record, PartitionChangeRecord) or record.replicas is None:
        return record
    return replace(record, directories=TOPIC_IDS[: len(record.replicas)])


def decoded(found):
    return [(type(one).__name__, record_to_json(one)) for one in found]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(drawn=st.lists(records.map(placed), max_size=60))
def test_the_sum_is_what_the_node_makes_of_the_same_records(drawn):
    state = committed_state()
    log = fitting(state, BEGUN + drawn)
    snapshot = list(image_records(frozen_copy(state)))
    assert list(differences(image_of(decoded(log)), image_of(decoded(snapshot)))) == []


def test_an_aborted_transaction_adds_nothing_and_one_that_ended_everything():
    topic = ("TopicRecord", {"name": "a", "topicId": "1"})
    begin, abort, end = ((f"{verb}TransactionRecord", {}) for verb in ("Begin", "Abort", "End"))
    assert image_of([begin, topic, abort]).keys == {}
    assert image_of([begin, topic]).keys == {}
    assert image_of([begin, topic, end]).keys.keys() == {("topic", "1")}


def topic(number):
    return "TopicRecord", {"name": f"t{number}", "topicId": str(number)}


def run_with(*snapshots, start=0, marks=None):
    """Logs of six records, t0 to t5, from `start` on, with high watermarks; n1's snapshots."""
    logs = {
        node: [record(node, n, kind=topic(n)[0], **topic(n)[1]) for n in range(start, 6)]
        for node in NODES
    }
    traces = {
        node: trace(node, high_watermark((marks or {}).get(node, 0 if marks else 6)))
        for node in NODES
    }
    held = {node: [] for node in NODES} | {"n1": list(snapshots)}
    return good_run(logs=logs, traces=traces, snapshots=held)


def snapshot(offset, *numbers, node="n1"):
    return Snapshot(node, offset, 1, [topic(number) for number in numbers])


def judged(run):
    return run_check(CheckSpec("snapshots"), run)


def test_a_whole_snapshot_passes_in_any_order():
    result = judged(run_with(snapshot(3, 2, 0, 1), snapshot(5, 0, 1, 2, 3, 4)))
    assert (result.status, result.operations) == (Status.PASS, 2)


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ((0, 2), "it lacks topic 1"),
        ((0, 1, 2, 3), "it holds topic 3, which the log does not"),
        ((), "it lacks topic 0"),
    ],
)
def test_a_snapshot_that_lacks_a_key_or_has_one_more_fails(numbers, wrong):
    result = judged(run_with(snapshot(3, *numbers)))
    assert result.status is Status.FAIL
    assert wrong in result.summary


def test_a_changed_value_is_named():
    spoilt = Snapshot("n1", 1, 1, [("TopicRecord", {"name": "tX", "topicId": "0"})])
    result = judged(run_with(spoilt))
    assert result.status is Status.FAIL
    assert "by the log t0" in result.summary


def test_a_level_of_kraft_version_in_a_metadata_record_is_skipped_as_kafka_does():
    level = {"kind": "FeatureLevelRecord", "name": "kraft.version", "featureLevel": 1}
    run = run_with(snapshot(3, 0, 1))
    logs = {
        node: [*log[:2], record(node, 2, **level), *log[3:]]
        for node, log in run.evidence.logs.items()
    }
    assert judged(with_evidence(run, logs=logs)).status is Status.PASS


def test_a_log_that_begins_with_a_snapshot_is_added_to_it():
    base = snapshot(2, 0, 1)
    assert judged(run_with(base, snapshot(4, 0, 1, 2, 3), start=2)).status is Status.PASS
    assert judged(run_with(base, snapshot(4, 0, 2, 3), start=2)).status is Status.FAIL


@pytest.mark.parametrize(
    ("numbers", "status"), [((0, 1, 2, 3), Status.PASS), ((0, 1, 3), Status.FAIL)]
)
def test_records_below_the_oldest_snapshot_that_are_there_still_keep_none_from_being_judged(
    numbers, status
):
    run = run_with(snapshot(2, 0, 1), snapshot(4, *numbers), start=1)
    assert (judged(run).status, judged(run).operations) == (status, 1)


def test_what_no_log_reaches_is_named_and_not_passed_over():
    result = judged(run_with(snapshot(2, 0), start=2))
    assert result.status is Status.PASS
    assert ": 2-1 of n1" in result.summary


def test_two_of_one_id_hold_the_same_where_no_log_reaches_them():
    run = run_with(snapshot(3, 0, 1, 2), start=3)
    held = run.evidence.snapshots
    for numbers, status in (((2, 1, 0), Status.PASS), ((0, 1), Status.FAIL)):
        others = {**held, "n2": [snapshot(3, *numbers, node="n2")]}
        assert judged(with_evidence(run, snapshots=others)).status is status


def test_the_end_of_a_log_that_nobody_announced_as_committed_judges_nobody():
    spoilt = snapshot(5, 0)
    run = run_with(spoilt, marks={"n3": 4})
    # It is n1's own: whoever takes a snapshot holds what it replaces for committed.
    assert judged(run).status is Status.FAIL
    run.evidence.logs["n1"].clear()
    assert "not judged" in judged(run).summary


def test_snapshots_that_were_not_stored_are_missed():
    run = run_with()
    del run.evidence.snapshots["n2"]
    assert judged(run).status is Status.UNKNOWN
