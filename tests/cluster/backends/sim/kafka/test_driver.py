"""What the driver makes a node of Kafka's raft do: its disk, its end, its snapshots, its network."""

import os

import pytest
from crc32c import crc32c

from cluster.backends.sim.kafka import classes, frames
from cluster.backends.sim.kafka.jvm import jvm_of, on_one_processor
from tests.cluster.backends.sim.kafka.raft_quorum import (
    CAP,
    RESIGN,
    SHUTDOWN,
    SNAPSHOT,
    SPOIL,
    Jvm,
    Quorum,
)
from tests.kafka_patches import patched_classes
from tests.kafka_release import VERSION, raft_jars

pytestmark = pytest.mark.slow

FETCH, VOTE, FETCH_SNAPSHOT = 1, 52, 59


@pytest.fixture(scope="module")
def jvm():
    raft_jars(VERSION)
    running = Jvm(classes.java_command(VERSION))
    yield running
    running.close()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux alone binds threads")
def test_a_world_keeps_its_threads_on_one_processor_and_lets_them_go():
    raft_jars(VERSION)
    jvm, free = jvm_of(VERSION), os.sched_getaffinity(0)
    jvm.call(frames.reset(logs=False))

    with on_one_processor([jvm]):
        bound = {frozenset(os.sched_getaffinity(thread)) for thread in (0, *jvm.main_threads)}

    assert len(jvm.main_threads) == 2
    assert (len(bound), {len(processors) for processors in bound}) == (1, {1})
    for thread in (0, *jvm.main_threads):
        assert os.sched_getaffinity(thread) == free


@pytest.fixture
def quorum(jvm):
    return Quorum(jvm)


def write(quorum, values):
    """Append each value in a batch of its own, and wait for its commit."""
    leader = quorum.elect()
    for value in values:
        quorum.append(leader, value)
        quorum.run(40)
    return leader


def values_of(quorum, node):
    return [value for _, _, value in quorum.of("commit", node)]


def test_appends_are_committed_on_all_nodes_in_order(quorum):
    write(quorum, [b"a", b"b", b"c"])
    quorum.run(2000)

    assert [values_of(quorum, node) for node in quorum.voters] == [[b"a", b"b", b"c"]] * 3
    assert quorum.of("fault") == []


def stop_in_flush(quorum):
    """Let a follower append three batches at once; return it, its end before, and its flush."""
    leader = write(quorum, [b"a"])
    quorum.run(2000)
    node = next(each for each in quorum.voters if each != leader)
    before = quorum.disk(node)["disk"][0][1]
    quorum.cut.add(node)
    write(quorum, [b"b", b"c", b"d"])
    quorum.cut.clear()
    quorum.run(
        5000, lambda: len([each for each in quorum.last if each[:2] == (node, "append")]) == 3
    )
    flushes = [fields for _, kind, *fields in quorum.last if kind == "in flush"]
    assert flushes == [[0, before + 3]]
    return node, before


@pytest.mark.parametrize(("keep", "torn", "left"), [(0, 0, 0), (1, 0, 1), (1, 30, 1), (9, 0, 3)])
def test_power_loss_in_a_flush_keeps_a_prefix_of_the_batches(quorum, keep, torn, left):
    node, before = stop_in_flush(quorum)

    quorum.kill(node, keep, torn, flush=1)
    batches = quorum.disk(node)["batch"]
    quorum.start(node)
    recovered = quorum.disk(node)

    assert len(batches) == len(recovered["batch"]) + (1 if torn else 0)
    assert len(batches[-1][3]) == torn or not torn
    assert recovered["disk"][0][1] == before + left
    quorum.run(3000)
    assert values_of(quorum, node)[-3:] == [b"b", b"c", b"d"]


def test_a_flush_that_ended_is_durable(quorum):
    node, before = stop_in_flush(quorum)

    quorum.kill(node, keep=0)

    assert quorum.disk(node)["disk"][0][1] == before + 3


@pytest.mark.parametrize("keep", [1, 3])
def test_what_a_process_that_is_killed_alone_has_written_is_kept_and_not_durable(quorum, keep):
    node, before = stop_in_flush(quorum)
    quorum.kill(node, keep, torn=-1, flush=1)
    assert quorum.disk(node)["disk"][0][1:3] == (before + keep, before)

    quorum.start(node)
    quorum.kill(node, keep=0)

    assert quorum.disk(node)["disk"][0][1] == before


@pytest.mark.parametrize("flush", [0, 1])
def test_a_vote_is_there_once_its_write_has_ended(quorum, flush):
    leader = quorum.elect()
    quorum.run(2000)
    node = next(each for each in quorum.voters if each != leader)
    before = quorum.disk(node)["state"]
    quorum.kill(leader)
    quorum.run(20_000, lambda: any(each[:2] == (node, "state") for each in quorum.last))

    quorum.kill(node, keep=0, flush=flush)

    assert (quorum.disk(node)["state"] == before) == (flush == 1)


@pytest.mark.parametrize("flush", [0, 1])
def test_a_snapshot_is_there_once_its_flush_has_ended(quorum, flush):
    leader = write(quorum, [b"a", b"b"])
    quorum.call(leader, SNAPSHOT, "q", -1)

    quorum.kill(leader, keep=0, flush=flush)

    assert len(quorum.disk(leader)["checkpoint"]) == (1 if flush else 2)


def test_a_new_node_fetches_a_snapshot_in_pieces_and_has_the_same_values(jvm):
    quorum = Quorum(
        jvm,
        internal_metadata_log_segment_bytes=500,
        metadata_max_retention_bytes=600,
        sim_snapshot_piece_bytes=100,
    )
    values = [b"value %d" % number for number in range(30)]
    leader = write(quorum, values[:20])
    quorum.call(leader, SNAPSHOT, "q", -1)
    write(quorum, values[20:])
    quorum.call(leader, SNAPSHOT, "q", -1)
    quorum.run(61_000)  # Kafka cleans each minute
    start = quorum.disk(leader)["disk"][0][0]
    assert start > 0

    quorum.start(4)
    quorum.run(2000)

    ((offset, _, count, crc),) = quorum.of("loaded", 4)
    assert (offset, count, crc) == (start, 30, crc32c(b"".join(values)))
    pieces = [api for _, _, _, _, api, *_ in quorum.of("send", 4) if api == FETCH_SNAPSHOT]
    assert len(pieces) > 3
    assert quorum.disk(4)["checkpoint"] == quorum.disk(leader)["checkpoint"]


def test_a_leader_that_resigns_is_followed_by_another(quorum):
    leader = quorum.elect()
    quorum.run(2000)
    quorum.call(leader, RESIGN)
    quorum.run(5000)

    assert quorum.leader() not in {None, leader}


def test_a_leader_shuts_down_once_another_leads(quorum):
    leader = quorum.elect()
    quorum.run(2000)
    quorum.call(leader, SHUTDOWN, "i", 5000)
    quorum.run(5000)

    assert quorum.of("down") == [()]
    assert quorum.wakes[leader] is None
    assert quorum.leader() not in {None, leader}


def test_requests_have_at_most_the_version_of_the_peer(jvm):
    quorum = Quorum(jvm)
    jvm.call(CAP, "hhi", VOTE, 1, -1)
    jvm.call(CAP, "hhi", FETCH, 17, 2)
    leader = quorum.elect()
    quorum.run(1000)

    versions = {(target, api, version) for _, target, _, _, api, version, _ in quorum.of("send")}
    votes = {version for _, api, version in versions if api == VOTE}
    fetches = {(target == 2, version) for target, api, version in versions if api == FETCH}
    assert votes <= {0, 1}
    assert {version for to_2, version in fetches if to_2} <= {17}
    # A PreVote cannot be said in version 1: it is answered as unsupported, and an election follows.
    assert leader is not None
    assert quorum.of("fault") == []


def test_a_paused_node_takes_the_message_that_waits_before_its_timeouts(quorum):
    leader = quorum.elect()
    quorum.run(1000)
    node = next(each for each in quorum.voters if each != leader)
    quorum.run(600, lambda: any(item[2] == node and item[4] is not None for item in quorum.queue))
    (item,) = (each for each in quorum.queue if each[2] == node and each[4] is not None)
    quorum.queue.remove(item)
    epoch = quorum.disk(node)["state"]
    quorum.now += 60_000  # far beyond its fetch time-out

    quorum.call(node, 2, "i", 1, rest=item[4])

    assert quorum.of("role", node)[-1][0].split()[0] == "follower"
    assert quorum.disk(node)["state"] == epoch


@pytest.mark.parametrize("damage", [1, 2, 3, 4, 5, 6])
def test_damage_is_what_it_is_said_to_be(quorum, damage):
    leader = write(quorum, [b"aaa", b"bbb", b"ccc"])
    quorum.run(2000)
    node = next(each for each in quorum.voters if each != leader)
    quorum.kill(node, keep=0)
    before = quorum.disk(node)
    quorum.jvm.call(SPOIL, "iii", node, damage, 2)
    after = quorum.disk(node)

    batches, left = before["batch"], after["batch"]
    if damage == 1:
        assert (len(before["state"]), len(after["state"])) == (1, 0)
    elif damage == 2:
        assert after["state"][0] == (*before["state"][0][:2], -1)
    elif damage == 3:
        assert left == batches[:-2] + batches[-1:]
    elif damage == 4:
        assert left == batches[:-2]
    elif damage == 5:
        assert [batch[:3] for batch in left] == [batch[:3] for batch in batches]
        assert b"ccc" in left[-2][3]
        assert b"bbb" in left[-1][3]
    else:
        assert len(left[-2][3]) < len(batches[-2][3])


def test_auto_join_makes_an_observer_a_voter(jvm):
    quorum = Quorum(jvm, controller_quorum_auto_join_enable="true")
    quorum.elect()
    quorum.start(4)
    quorum.run(20_000)

    assert quorum.of("voters", 4)[-1] == (4,)


def test_a_patched_class_takes_the_place_of_kafkas(tmp_path):
    raft_jars(VERSION)
    folder = patched_classes("high watermark of one voter", tmp_path / "patched")
    running = Jvm(classes.java_command(VERSION, patched=folder))
    try:
        quorum = Quorum(running)
        leader = quorum.elect()
        quorum.run(2000)
        quorum.cut |= set(quorum.voters) - {leader}
        quorum.append(leader, b"alone")
        quorum.run(500)
        assert values_of(quorum, leader) == [b"alone"]
    finally:
        running.close()
