"""Records through three brokers in virtual time: replicated, acknowledged, read, failed over."""

import pytest

from cluster.node.errors import ErrorCode
from tests.cluster.node.broker.cluster_of_brokers import Brokers


def test_records_are_acknowledged_when_every_replica_has_them():
    brokers = Brokers()
    brokers.create(min_insync_replicas=2)
    result = brokers.produce(1, b"a", b"b")
    assert (result.error, result.base_offset) == (ErrorCode.none, 0)
    assert [brokers.replica(broker).log.end_offset for broker in (1, 2, 3)] == [2, 2, 2]
    assert brokers.values(1) == [b"a", b"b"]
    assert brokers.until(lambda: brokers.values(2) == [b"a", b"b"])


def test_only_the_leader_takes_records_and_others_name_it():
    brokers = Brokers()
    brokers.create()
    result = brokers.produce(2, b"a")
    assert (result.error, result.leader_id) == (ErrorCode.not_leader_or_follower, 1)


@pytest.mark.parametrize("acks", [1, 0])
def test_with_fewer_acknowledgements_the_leader_alone_counts(acks):
    brokers = Brokers()
    brokers.create()
    for other in (2, 3):
        brokers.world.mesh.cut(f"n{other}", "n1")
    replies = brokers.send(1, b"a", acks=acks)
    assert brokers.until(lambda: replies and brokers.replica(1).log.end_offset == 1, 500)
    assert brokers.replica(1).partition.high_watermark == 0


def test_too_few_replicas_in_sync_refuse_records_that_all_must_have():
    brokers = Brokers(settings={"replica.lag.time.max.ms": 1_000})
    brokers.create(min_insync_replicas=3)
    brokers.world.kill("n3")
    assert brokers.until(lambda: len(brokers.partition().isr) == 2)
    brokers.run(100)
    assert brokers.produce(1, b"a").error is ErrorCode.not_enough_replicas
    assert brokers.replica(1).log.end_offset == 0
    assert brokers.produce(1, b"b", acks=1).error is ErrorCode.none
    brokers.run(2_000)
    assert brokers.replica(1).partition.high_watermark == 0, (
        "nothing is committed below the minimum"
    )


def test_a_follower_that_lags_leaves_the_isr_and_comes_back():
    brokers = Brokers(
        settings={"replica.lag.time.max.ms": 1_000, "broker.session.timeout.ms": 9_000}
    )
    brokers.create(min_insync_replicas=2)
    brokers.world.pause("n3")
    replies = brokers.send(1, b"a", timeout_ms=30_000)
    assert brokers.until(lambda: replies, 6_000)
    assert replies[0].partitions[0].error is ErrorCode.none
    assert set(brokers.partition().isr) == {1, 2}
    brokers.world.resume("n3")
    assert brokers.until(lambda: set(brokers.partition().isr) == {1, 2, 3})
    assert brokers.until(lambda: brokers.values(3) == [b"a"])


def test_a_deposed_leader_gives_up_what_nobody_else_has():
    brokers = Brokers(settings={"replica.lag.time.max.ms": 1_000})
    brokers.create(min_insync_replicas=1)
    brokers.produce(1, b"a")
    for other in ("n2", "n3"):
        brokers.world.mesh.cut("n1", other)
        brokers.world.mesh.cut(other, "n1")
    lost = brokers.send(1, b"lost", acks=1)
    assert brokers.until(lambda: lost, 500)
    waits = brokers.send(1, b"lost, too", timeout_ms=60_000)
    brokers.run(100)
    assert brokers.replica(1).log.end_offset == 3
    state = brokers.node(2).controller.image.state
    key = brokers.replica(2).key
    assert brokers.until(lambda: state.partitions.get(key).leader in {2, 3})
    leader = state.partitions.get(key).leader
    assert brokers.until(lambda: brokers.replica(leader).partition.leads)
    assert brokers.produce(leader, b"b").base_offset == 1
    for other in ("n2", "n3"):
        brokers.world.mesh.restore("n1", other)
        brokers.world.mesh.restore(other, "n1")
    assert brokers.until(lambda: brokers.values(1) == [b"a", b"b"])
    traced = [line[3] for line in brokers.world.nodes["n1"].trace if line[2] == "replica-truncated"]
    assert [(event["from_offset"], event["to_offset"]) for event in traced] == [(3, 1)]
    result = waits[0].partitions[0]
    assert (result.error, result.base_offset) == (ErrorCode.not_leader_or_follower, 2), (
        "the offset says that they were appended"
    )


def test_offsets_are_those_that_a_consumer_may_read():
    brokers = Brokers()
    brokers.create()
    assert brokers.offset(1, -1).offset == 0
    brokers.produce(1, b"a", b"b")
    assert (brokers.offset(1, -2).offset, brokers.offset(1, -1).offset) == (0, 2)
    assert brokers.offset(2, -1).error_code is ErrorCode.not_leader_or_follower


def test_logs_survive_a_stop_in_order_and_are_not_read_again():
    brokers = Brokers()
    brokers.create()
    brokers.produce(1, b"a")
    stopped = []
    brokers.world.stop("n1", lambda: stopped.append(True))
    assert brokers.until(lambda: stopped)
    brokers.world.start("n1")
    assert brokers.until(lambda: brokers.node(1) is not None and brokers.replica(1) is not None)
    assert brokers.replica(1).log.end_offset == 1
    assert brokers.node(1).replicas.logs.previous_broker_epoch is not None
    assert brokers.until(lambda: brokers.values(1) == [b"a"])


def test_a_topic_that_is_made_anew_begins_empty():
    brokers = Brokers()
    brokers.create()
    brokers.produce(1, b"a")
    brokers.delete()
    assert brokers.until(lambda: all(brokers.replica(broker) is None for broker in (1, 2, 3)))
    brokers.create()
    assert brokers.produce(1, b"b").base_offset == 0
    assert brokers.values(1) == [b"b"]
