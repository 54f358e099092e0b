"""A broker of whose log directories one goes offline: what it answers, and what goes on."""

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import DescribeLogDirsRequest
from tests.cluster.node.broker.cluster_of_brokers import TWO_DIRECTORIES, Brokers

IN_FIRST_RECORD = 66
KEPT = "kept"
"""A topic in the directory of the metadata, where `t` is in the other."""


def log_file(brokers, broker):
    _, disk = brokers.world.nodes[f"n{broker}"].disks.values()
    return disk, next(path for path in disk.files() if path.startswith("t-0/") and ".log" in path)


def with_records(settings=TWO_DIRECTORIES):
    """Three brokers; the log of broker 1 is on its disk, and not in its memory."""
    brokers = Brokers(settings=settings)
    brokers.create(KEPT, min_insync_replicas=2)
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
    """Leadership of what was there moves, and all else is served as before."""
    assert brokers.until(lambda: is_moved_away(brokers), 10_000)
    leader = brokers.partition().leader
    assert brokers.until(lambda: brokers.replica(leader).partition.leads)
    assert brokers.values(leader)[:3] == [b"a", b"b", b"c"]
    # A leader waits for a replica that had all not long ago, as Kafka's does, directory or not.
    assert brokers.produce(leader, b"z", timeout_ms=15_000).error is ErrorCode.none
    assert brokers.until(lambda: brokers.unfenced() == {1, 2, 3})
    assert brokers.until(lambda: set(brokers.partition(KEPT).isr) == {1, 2, 3})
    leader = brokers.partition(KEPT).leader
    before = brokers.replica(1, KEPT).log.end_offset
    assert brokers.produce(leader, b"y", name=KEPT).error is ErrorCode.none
    assert brokers.until(lambda: brokers.replica(1, KEPT).log.end_offset == before + 1)
    assert brokers.world.deaths == []


def check_its_answers(brokers):
    assert brokers.produce(1, b"x").error is ErrorCode.kafka_storage_error
    assert brokers.fetch(1).error is ErrorCode.kafka_storage_error
    assert brokers.offset(1, -1).error_code is ErrorCode.kafka_storage_error
    assert brokers.delete_records(1, 0).error_code is ErrorCode.kafka_storage_error
    found = brokers.answer(1, DescribeLogDirsRequest(topics=None)).results
    assert [directory.error_code for directory in found] == [
        ErrorCode.none,
        ErrorCode.kafka_storage_error,
    ]
    traced = [
        fields
        for _, _, event, fields, _ in brokers.world.nodes["n1"].trace
        if event == "log-directory-offline"
    ]
    assert len(traced) == 1
    left = [directory.directory_id for directory in brokers.node(1).replicas.logs.online]
    assert brokers.until(lambda: list(brokers.state.brokers.get(1).log_dirs) == left)


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
        lambda: brokers.node(1) is not None and brokers.node(1).replicas.logs.has_offline
    )
    check_its_answers(brokers)
    check_what_goes_on(brokers)


@pytest.mark.slow
def test_a_directory_that_cannot_be_identified_is_offline_and_its_logs_are_not_made_anew():
    brokers = with_records()
    stopped = []
    brokers.world.stop("n1", lambda: stopped.append(True))
    assert brokers.until(lambda: stopped)
    _, disk = brokers.world.nodes["n1"].disks.values()
    disk.replace({**disk.files(), "meta.properties": b"?"})
    brokers.world.start("n1")
    assert brokers.until(lambda: brokers.node(1) is not None and 1 in brokers.unfenced())
    assert brokers.until(lambda: brokers.replica(1, KEPT) is not None)
    assert brokers.fetch(1).error is ErrorCode.kafka_storage_error
    found = brokers.answer(1, DescribeLogDirsRequest(topics=None)).results
    assert [directory.error_code for directory in found] == [
        ErrorCode.none,
        ErrorCode.kafka_storage_error,
    ]
    assert brokers.until(lambda: is_moved_away(brokers))


@pytest.mark.parametrize("directories", [1, 2])
def test_without_the_directory_of_the_metadata_the_node_ends(directories):
    brokers = Brokers(settings={"kraftprobe.log.dirs": directories})
    logs = brokers.node(1).replicas.logs
    logs.directories[0].on_failure(OSError(5, "Input/output error"))
    (death,) = brokers.world.deaths
    assert "of the metadata" in death.output_tail[0]


def test_without_any_directory_left_the_node_ends():
    brokers = Brokers(settings=TWO_DIRECTORIES)
    brokers.node(1).replicas.logs.directories[1].on_failure(OSError(5, "Input/output error"))
    assert brokers.world.deaths == []
    brokers.node(1).replicas.logs.directories[0].on_failure(OSError(5, "Input/output error"))
    assert len(brokers.world.deaths) == 1


def test_a_disk_that_is_full_ends_the_node_until_it_is_restarted_with_room():
    brokers = with_records(settings={})
    node = brokers.world.nodes["n1"]
    node.disk.full = True
    leader = brokers.partition().leader
    replies = brokers.send(leader, b"d")
    assert brokers.until(lambda: replies)
    assert brokers.until(lambda: not node.process.alive, 5_000)
    brokers.world.deaths.clear()
    node.disk.full = False
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
    brokers.node(leader).replicas.logs.directories[1].on_failure(OSError(5, "Input/output error"))
    assert brokers.until(lambda: replies, 3_000)
    assert replies[0].partitions[0].error in {ErrorCode.kafka_storage_error, ErrorCode.none}


def test_a_log_whose_topic_id_the_power_took_gets_it_when_it_is_hosted():
    brokers = Brokers()
    brokers.create()
    brokers.world.kill("n1", "everything")
    disk = brokers.world.nodes["n1"].disk
    disk.replace({**disk.files(), f"t-0/{0:020}.log": b""})
    brokers.world.start("n1")
    assert brokers.until(lambda: "t-0/partition.metadata" in disk.files())


def test_a_flush_that_comes_due_after_its_log_was_deleted_harms_nothing():
    brokers = Brokers()
    brokers.create(flush_ms=500)
    brokers.produce(1, b"a")
    brokers.delete()
    brokers.run(1_000)
    assert brokers.world.deaths == []
