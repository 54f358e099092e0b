"""Workloads `partitions` and `unique-ids`: what they ask for, and what counts as certain."""

import pytest

from checkers.history import EventType
from cluster.client.broker_client import FakeBroker
from cluster.client.caller import Outcome
from cluster.systems import kraft
from cluster.systems.kafka import kind as kafka
from tests.workloads.test_workloads import perform
from workloads.base import Op

INCREMENT, READ = Op("increment", "p1"), Op("read", "p1")


def described(partitions):
    return Outcome("ok", {"id": "x", "partitions": partitions})


@pytest.mark.parametrize(("found", "count"), [(None, 0), (1, 0), (7, 6)])
def test_a_read_counts_the_partitions_beyond_the_first(found, count):
    outcome = Outcome("ok", None) if found is None else described(found)
    done, calls, _ = perform("partitions", READ, outcome)
    assert (done[0].type, done[0].value) == (EventType.OK, count)
    assert (calls[0][0], calls[0][1].host) == ("describe_topic", "CLIENT")


def test_any_broker_of_kafka_may_answer_a_read():
    for kind in (kraft.KIND, kafka.KIND):
        _, calls, _ = perform("partitions", READ, described(1), kind=kind)
        assert calls[0][-1]["lags"] is kind.reads_lag


def test_an_increment_asks_for_exactly_the_next_partition_and_remembers_it():
    done, calls, _ = perform(
        "partitions", INCREMENT, described(3), Outcome("ok"), Outcome("ok"), times=2
    )
    assert [completion.type for completion in done] == [EventType.OK] * 2
    assert [call[0] for call in calls] == ["describe_topic", "create_partition", "create_partition"]
    assert [call[2:5] for call in calls[1:]] == [("p1", 3, (1,)), ("p1", 4, (1,))]
    assert calls[1][1].host == "CONTROLLER"


def test_the_first_increment_makes_the_topic():
    done, calls, _ = perform(
        "partitions", INCREMENT, Outcome("ok", None), described(1), Outcome("ok")
    )
    assert done[0].type is EventType.OK
    assert [call[0] for call in calls] == ["describe_topic", "create_topic", "create_partition"]
    assert calls[2][3] == 1


@pytest.mark.parametrize("lost", [Outcome("fail", error="x"), Outcome("info", error="x")])
def test_what_fails_before_the_increment_is_sent_is_a_definite_failure(lost):
    for before in ((), (Outcome("ok", None),)):
        done, _, _ = perform("partitions", INCREMENT, *before, lost)
        assert done[0].type is EventType.FAIL


def test_an_increment_without_an_answer_is_indefinite_and_looked_up_again():
    lost = Outcome("info", error="timed-out")
    done, calls, _ = perform(
        "partitions", INCREMENT, described(1), lost, described(2), Outcome("ok"), times=2
    )
    assert [completion.type for completion in done] == [EventType.INFO, EventType.OK]
    assert [call[0] for call in calls[2:]] == ["describe_topic", "create_partition"]


def test_a_fake_broker_keeps_its_ids():
    assert FakeBroker(7) == FakeBroker(7)
    assert FakeBroker(7).incarnation_id == FakeBroker(7).incarnation_id
    assert FakeBroker(7).incarnation_id != FakeBroker(7, 1).incarnation_id
    assert FakeBroker(7).directory_id == FakeBroker(7, 1).directory_id
    assert FakeBroker(7).directory_id != FakeBroker(8).directory_id


def test_where_roles_are_separate_an_increment_is_read_at_a_broker_and_asked_of_a_controller():
    def separate(listener):
        return ("n1", "n2") if listener == "CONTROLLER" else ("n4", "n5")

    for pinned_to, broker in ((None, 4), ("n2", 4), ("n5", 5)):
        answers = (Outcome("ok", None), Outcome("ok"), Outcome("ok"))
        done, calls, _ = perform(
            "partitions", INCREMENT, *answers, nodes_at=separate, pinned_to=pinned_to
        )
        assert done[0].type is EventType.OK
        controller = 2 if pinned_to == "n2" else 1
        assert [(call[1].host, call[1].node_id) for call in calls] == [
            ("CLIENT", broker),
            ("CONTROLLER", controller),
            ("CONTROLLER", controller),
        ]
        assert calls[2][4] in {(4,), (5,)}, "a controller holds no partition"
