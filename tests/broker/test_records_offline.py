"""A broker whose folder of records goes offline: what it answers, and what goes on without it."""

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import DescribeLogDirsRequest
from tests.broker.cluster_of_brokers import Brokers

IN_FIRST_RECORD = 66


def log_file(brokers, broker):
    disk = brokers.world.nodes[f"n{broker}"].disk
    return disk, next(path for path in disk.files() if path.startswith("t-0/") and ".log" in path)


def with_records(**settings):
    """Three brokers; the log of broker 1 is on its disk, and not in its memory."""
    brokers = Brokers(**settings)
    brokers.create(min_insync_replicas=2)
    for value in (b"a", b"b", b"c"):
        brokers.produce(1, value)
    brokers.restart_in_order(1)
    assert brokers.until(lambda: set(brokers.partition().isr) == {1, 2, 3})
    assert brokers.until(lambda: brokers.replica(1) is not None)
    return brokers


def is_moved_away(brokers):
    partition = brokers.partition()
    return 1 not in partition.isr and partition.leader in {2, 3}


def check_what_goes_on(brokers):
    """Leadership moves, nobody loses a record, and the node keeps its part in the quorum."""
    assert brokers.until(lambda: is_moved_away(brokers), 10_000)
    leader = brokers.partition().leader
    assert brokers.until(lambda: brokers.replica(leader).partition.leads)
    assert brokers.values(leader)[:3] == [b"a", b"b", b"c"]
    assert brokers.produce(leader, b"z").error is ErrorCode.none
    raft = brokers.node(1).raft
    before = raft.log.end_offset
    assert brokers.until(lambda: raft.log.end_offset > before), "it follows the quorum still"
    assert brokers.world.deaths == []


def check_its_answers(brokers):
    assert brokers.node(1).replicas.is_offline
    assert brokers.produce(1, b"x").error is ErrorCode.kafka_storage_error
    assert brokers.fetch(1).error is ErrorCode.kafka_storage_error
    assert brokers.offset(1, -1).error_code is ErrorCode.kafka_storage_error
    assert brokers.delete_records(1, 0).error_code is ErrorCode.kafka_storage_error
    (directory,) = brokers.answer(1, DescribeLogDirsRequest(topics=None)).results
    assert directory.error_code is ErrorCode.kafka_storage_error
    traced = [
        fields
        for _, _, event, fields, _ in brokers.world.nodes["n1"].trace
        if event == "log-directory-offline"
    ]
    assert len(traced) == 1


def test_damage_that_is_found_at_a_read():
    brokers = with_records()
    disk, path = log_file(brokers, 1)
    disk.corrupt(path, IN_FIRST_RECORD, 0xFF)
    assert brokers.fetch(1).error is ErrorCode.kafka_storage_error
    check_its_answers(brokers)
    check_what_goes_on(brokers)


def test_damage_that_is_found_when_the_logs_are_opened():
    brokers = with_records()
    stopped = []
    brokers.world.stop("n1", lambda: stopped.append(True))
    assert brokers.until(lambda: stopped)
    disk, path = log_file(brokers, 1)
    disk.corrupt(path, IN_FIRST_RECORD, 0xFF)
    brokers.world.start("n1")
    assert brokers.until(
        lambda: brokers.node(1) is not None and brokers.node(1).replicas.is_offline
    )
    check_its_answers(brokers)
    check_what_goes_on(brokers)


def test_a_disk_that_is_full_is_offline_until_it_is_restarted_with_room():
    brokers = with_records()
    brokers.world.nodes["n1"].disk.full = True
    leader = brokers.partition().leader
    replies = brokers.send(leader, b"d")
    assert brokers.until(lambda: replies)
    node = brokers.world.nodes["n1"]
    died = brokers.until(lambda: brokers.node(1) is None or not node.process.alive, 5_000)
    offline = not died and brokers.node(1).replicas.is_offline
    assert died or offline
    brokers.world.deaths.clear()
    node.disk.full = False
    if not died:
        brokers.world.kill("n1", "written")
    brokers.world.start("n1")
    assert brokers.until(lambda: set(brokers.partition().isr) == {1, 2, 3}, 40_000)
    leader = brokers.partition().leader
    assert [brokers.values(leader, offset=at)[0] for at in range(3)] == [b"a", b"b", b"c"]
    assert brokers.until(lambda: brokers.values(1, offset=3) == [b"d"])


@pytest.mark.parametrize("acks", [1, -1])
def test_a_write_that_fails_under_a_request_is_answered_in_time(acks):
    brokers = with_records()
    leader = brokers.partition().leader
    replies = brokers.send(leader, b"d", acks=acks, timeout_ms=2_000)
    brokers.run(0.1)
    brokers.node(leader).replicas.directory.on_failure(OSError(5, "Input/output error"))
    assert brokers.until(lambda: replies, 3_000)
    assert replies[0].partitions[0].error in {ErrorCode.kafka_storage_error, ErrorCode.none}
