"""The data path at its edges, with three brokers in virtual time."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from cluster.node.broker.replication.partition import Partition
from cluster.node.broker.replication.replica import Replica
from cluster.node.errors import ErrorCode
from cluster.node.log.data.data_log import DataLog
from cluster.node.protocol import data_messages as d
from cluster.node.protocol import messages as m
from tests.cluster.node.broker.cluster_of_brokers import Brokers, list_offsets
from tests.cluster.node.controller.fakes import alter
from tests.cluster.node.log.data_helpers import batch


def waiting_fetch(brokers, broker, *rows, max_wait_ms=20_000, **options):
    options = {"rack": "", **options}
    request = d.FetchRequest(d.CONSUMER, -1, max_wait_ms, 1, 1 << 20, rows, **options)
    return brokers.ask(broker, request, timeout_ms=60_000)


def test_a_consumer_waits_at_a_follower_until_that_knows_of_the_commitment():
    brokers = Brokers()
    brokers.create()
    brokers.produce(1, b"a")
    assert brokers.until(lambda: brokers.values(2) == [b"a"])
    waiting = waiting_fetch(brokers, 2, d.FetchPartition("t", 0, 1, 1 << 20))
    brokers.run(300)
    brokers.produce(1, b"b")
    assert brokers.until(lambda: waiting, 1_000)
    assert waiting[0].partitions[0].records


def test_a_consumer_that_may_read_at_the_leader_only_learns_that_it_leads_no_more():
    brokers = Brokers()
    brokers.create()
    waiting = waiting_fetch(brokers, 1, d.FetchPartition("t", 0, 0, 1 << 20), rack=None)
    brokers.run(300)
    brokers.world.pause("n1")
    assert brokers.until(lambda: brokers.partition().leader != 1)
    brokers.world.resume("n1")
    assert brokers.until(lambda: waiting, 2_000)
    assert waiting[0].partitions[0].error is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.unknown_leader_epoch), (-1, ErrorCode.not_leader_or_follower)],
)
def test_a_broker_that_is_no_replica_yet_fetches_again(epoch, error):
    brokers = Brokers()
    brokers.create(replicas=(1, 2))
    row = d.FetchPartition("t", 0, 0, 1 << 20, current_leader_epoch=epoch)
    fetched = brokers.answer(1, d.FetchRequest(3, -1, 0, 1, 1 << 20, (row,)))
    assert fetched.partitions[0].error is error


def test_no_epoch_ends_nowhere():
    brokers = Brokers()
    brokers.create()
    brokers.produce(1, b"a")
    row = d.OffsetForLeaderPartition(
        partition=m.i32(0), current_leader_epoch=m.i32(-1), leader_epoch=m.i32(-1)
    )
    topic = d.OffsetForLeaderTopic(topic=m.TopicName("t"), partitions=(row,))
    request = d.OffsetForLeaderEpochRequest(replica_id=m.BrokerId(-1), topics=(topic,))
    (found,) = brokers.answer(1, request).topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == (ErrorCode.none, -1, -1)


def test_a_fetch_that_is_parked_learns_of_the_deletion_of_its_topic():
    brokers = Brokers()
    brokers.create()
    waiting = waiting_fetch(brokers, 1, d.FetchPartition("t", 0, 0, 1 << 20))
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
    one, two = (list_offsets("t", index, -1).topics[0].partitions[0] for index in (0, 1))
    topic = d.ListOffsetsTopic(name=m.TopicName("t"), partitions=(one, two, one))
    request = replace(list_offsets("t", 0, -1), topics=(topic,))
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
    for owner, name in ((Replica, "position"), (DataLog, "read"), (Partition, "on_fetch")):
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
    row = d.FetchPartition("t", 0, 0, 1 << 20)
    request = d.FetchRequest(d.CONSUMER, -1, 20_000, 3_000, 1 << 20, (row,))
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


EXTREMES = (-(2**63), -(2**31), -3, -2, -1, 0, 1, 2, 2**31 - 1, 2**63 - 1)


def mutated(draw, data):
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(data))
        kind = draw.choice(("flip", "cut", "insert", "extreme"))
        if kind == "flip":
            data = data[:at] + bytes([data[at] ^ draw.randint(1, 255)]) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at] or b"x"
        elif kind == "insert":
            data = data[:at] + draw.randbytes(8) + data[at:]
        else:
            data = data[:at] + draw.choice((b"\xff", b"\x7f", b"\0")) * 4 + data[at + 4 :]
    return data


def test_no_bytes_and_no_numbers_of_a_stranger_break_a_broker():
    draw = Random(7)
    brokers = Brokers()
    brokers.create()
    brokers.produce(1, b"a")
    now_ms = brokers.node(1).replicas.clock.wall_ms()

    def number(bits):
        return draw.choice([n for n in EXTREMES if -(2 ** (bits - 1)) <= n < 2 ** (bits - 1)])

    for _ in range(150):
        producer = (number(64), number(16) if draw.random() < 0.5 else 0, number(32))
        sent = batch(b"x", b"y", timestamp_ms=now_ms, producer=(-1, -1, -1))
        if draw.random() < 0.3 and producer[0] >= 0:
            sent = batch(b"x", timestamp_ms=now_ms, producer=(producer[0], 0, max(producer[2], 0)))
        rows = (d.ProducePartition("t", 0, mutated(draw, sent)),) * draw.randint(1, 2)
        brokers.ask(1, d.ProduceRequest(draw.choice((0, 1, -1, 7)), number(32), rows))
        row = d.FetchPartition("t", number(32), number(64), number(32), number(32), number(32))
        at = d.FetchPartition(
            "t", 0, number(64), number(32), -1, number(32), number(64), number(64)
        )
        brokers.ask(
            1,
            d.FetchRequest(
                -1,
                number(64),
                number(32),
                number(32),
                number(32),
                draw.choice(((row,), (at,), (at, row), (at, at))),
                session_id=number(32),
                session_epoch=draw.choice((-1, 0, 0, 1, 2)),
            ),
        )
        brokers.ask(1, list_offsets("t", 0, number(64)))
        brokers.run(3)
    assert brokers.world.deaths == []
    assert not brokers.node(1).replicas.logs.has_offline
    assert brokers.produce(1, b"z").error is ErrorCode.none
    end = brokers.replica(1).log.end_offset
    assert brokers.until(lambda: brokers.replica(2).log.end_offset == end)


def test_a_log_start_that_moved_just_before_a_fetch_came_is_not_lost():
    brokers = Brokers()
    brokers.create("deleted")
    assert brokers.produce(1, b"a", b"b", name="deleted").error is ErrorCode.none
    # The followers' next Fetches are on their way, and name the old log start.
    deleted = brokers.delete_records(1, 2, name="deleted")
    assert (deleted.error_code, deleted.low_watermark) == (ErrorCode.none, 2)


@pytest.mark.parametrize(
    ("policy", "error"),
    [("", ErrorCode.none), ("compact", ErrorCode.policy_violation), ("compact,delete", 0)],
)
def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(policy, error):
    brokers = Brokers()
    brokers.create(cleanup_policy=policy)
    assert brokers.delete_records(1, 0).error_code == error


def test_a_leader_that_has_not_heard_of_a_higher_minimum_commits_nothing_alone():
    brokers = Brokers(settings={"replica.lag.time.max.ms": 3_000})
    brokers.create(replicas=(1, 2))
    assert brokers.produce(1, b"a").error is ErrorCode.none
    brokers.run(2_000)
    brokers.node(1).replicas.apply = lambda *_: None  # its metadata come late
    replies = []
    raised = alter("min.insync.replicas", "2", resource=(2, "t"))
    brokers.node(int(brokers.quorum.elect()[1:])).handle("CONTROLLER", raised, replies.append)
    assert brokers.until(lambda: replies)
    fetchers = brokers.node(2).replicas._fetchers
    fetchers.add = lambda *_: None
    fetchers.stop()
    sent = brokers.send(1, b"b", timeout_ms=10_000)
    assert brokers.until(lambda: brokers.partition().isr == (1,))
    assert brokers.until(lambda: sent)
    assert sent[0].partitions[0].error is ErrorCode.request_timed_out
    brokers.world.kill("n1", "written")
    assert brokers.until(lambda: brokers.replica(2).partition.leads)
    assert brokers.values(2) == [b"a"]


def test_a_new_leader_commits_what_it_took_as_a_follower_once_its_disk_has_it():
    brokers = Brokers()
    brokers.create(replicas=(1, 2))
    brokers.produce(1, b"a")
    disk, unwritten = brokers.world.nodes["n2"].disk, []
    disk.barrier = unwritten.append
    brokers.send(1, b"b")
    assert brokers.until(lambda: brokers.replica(2).log.end_offset == 2)
    brokers.world.kill("n1", "written")
    assert brokers.until(lambda: brokers.replica(2).partition.leads)
    assert brokers.partition().isr == (2,)
    assert brokers.replica(2).log.written_end_offset == 1
    del disk.barrier
    for done in unwritten:
        done(None)
    brokers.run(300)
    assert brokers.values(2) == [b"a", b"b"]
