"""The data path at its edges, with three brokers in virtual time."""

import datetime as dt
from collections import Counter

from kio.static.primitive import i32Timedelta

from cluster.node.broker.partition import Partition
from cluster.node.broker.replica import Replica
from cluster.node.errors import ErrorCode
from cluster.node.log.data_log import DataLog
from cluster.node.protocol.data_messages import (
    CONSUMER,
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from cluster.node.protocol.messages import (
    BrokerId,
    TopicName,
    i8,
    i32,
    i64,
)
from tests.broker.cluster_of_brokers import Brokers


def waiting_fetch(brokers, broker, *rows, max_wait_ms=20_000, **options):
    options = {"rack": "", **options}
    request = FetchRequest(CONSUMER, -1, max_wait_ms, 1, 1 << 20, rows, **options)
    return brokers.ask(broker, request, timeout_ms=60_000)


def test_a_consumer_waits_at_a_follower_until_that_knows_of_the_commitment():
    brokers = Brokers()
    brokers.create()
    brokers.produce(1, b"a")
    assert brokers.until(lambda: brokers.values(2) == [b"a"])
    waiting = waiting_fetch(brokers, 2, FetchPartition("t", 0, 1, 1 << 20))
    brokers.run(300)
    brokers.produce(1, b"b")
    assert brokers.until(lambda: waiting, 1_000)
    assert waiting[0].partitions[0].records


def test_a_consumer_that_may_read_at_the_leader_only_learns_that_it_leads_no_more():
    brokers = Brokers()
    brokers.create()
    waiting = waiting_fetch(brokers, 1, FetchPartition("t", 0, 0, 1 << 20), rack=None)
    brokers.run(300)
    brokers.world.pause("n1")
    assert brokers.until(lambda: brokers.partition().leader != 1)
    brokers.world.resume("n1")
    assert brokers.until(lambda: waiting, 2_000)
    assert waiting[0].partitions[0].error is ErrorCode.not_leader_or_follower


def test_a_fetch_that_is_parked_learns_of_the_deletion_of_its_topic():
    brokers = Brokers()
    brokers.create()
    waiting = waiting_fetch(brokers, 1, FetchPartition("t", 0, 0, 1 << 20))
    brokers.run(300)
    brokers.delete("t")
    assert brokers.until(lambda: waiting, 1_000)
    assert waiting[0].partitions[0].error is ErrorCode.unknown_topic_or_partition


def test_a_broker_that_closes_its_logs_appends_no_more():
    brokers = Brokers()
    brokers.create()
    brokers.produce(1, b"a")
    node = brokers.node(1)
    node.replicas.shutdown(7, lambda: None)
    assert brokers.produce(1, b"late", acks=1).error is ErrorCode.not_leader_or_follower
    assert brokers.quorum.world.deaths == []


def test_a_partition_whose_offset_is_asked_for_twice_is_an_invalid_request():
    brokers = Brokers()
    brokers.create(partitions=2)
    rows = tuple(
        ListOffsetsPartition(
            partition_index=i32(index), current_leader_epoch=i32(-1), timestamp=i64(-1)
        )
        for index in (0, 1, 0)
    )
    request = ListOffsetsRequest(
        replica_id=BrokerId(CONSUMER),
        isolation_level=i8(0),
        topics=(ListOffsetsTopic(name=TopicName("t"), partitions=rows),),
        timeout=i32Timedelta.parse(dt.timedelta(0)),
    )
    found = brokers.answer(1, request).topics[0].partitions
    assert [row.error_code for row in found] == [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]


def test_an_idle_cluster_looks_at_no_partition(monkeypatch):
    brokers = Brokers()
    brokers.create(partitions=20)
    for index in range(20):
        brokers.produce(1, b"a", index=index)
    brokers.run(2_000)
    looked = Counter()
    for owner, name in ((Replica, "position"), (DataLog, "read"), (Partition, "fetched")):
        original = getattr(owner, name)

        def counted(self, *args, _name=name, _original=original, **options):
            looked[_name] += 1
            return _original(self, *args, **options)

        monkeypatch.setattr(owner, name, counted)
    brokers.run(10_000)
    assert not looked
    assert brokers.produce(1, b"b", index=7).error is ErrorCode.none
    assert brokers.partition(index=7).isr == (1, 2, 3), "they fetched all the time"
    assert max(looked.values()) < 20


def test_records_that_a_consumer_waits_for_are_not_read_with_each_append(monkeypatch):
    brokers = Brokers()
    brokers.create(replicas=(1,))
    brokers.produce(1, b"a" * 100)
    row = FetchPartition("t", 0, 0, 1 << 20)
    request = FetchRequest(CONSUMER, -1, 20_000, 3_000, 1 << 20, (row,))
    waiting = brokers.ask(1, request, timeout_ms=60_000)
    brokers.run(100)
    read = DataLog.read
    reads = []
    monkeypatch.setattr(DataLog, "read", lambda *args, **kw: reads.append(1) or read(*args, **kw))
    while not waiting:
        brokers.produce(1, b"a" * 100)
        brokers.run(10)
    assert 3_000 <= len(waiting[0].partitions[0].records) < 3_300
    assert len(reads) == 1
