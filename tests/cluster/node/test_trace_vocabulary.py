"""docs/evidence.md and the trace agree: every event and every field, described and emitted."""

import ast
import dataclasses
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import NO_DIRECTORY, BeginQuorumEpochRequest, FetchResponse
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.protocol import messages as m
from tests.cluster.node.broker.cluster_of_brokers import TWO_DIRECTORIES, Brokers
from tests.cluster.node.controller.fakes import creatable, create, delete
from tests.harness.sim.quorums import Quorum

ROOT = Path(__file__).resolve().parents[3]
WORD = re.compile(r"`([a-z][a-z_-]*)`")
ONLY_OF_PROCESSES = {"clock"}
"""What `start` says of a real process alone."""
ENDS_OF_PROCESSES = {"stop-timeout"}
"""Only a process can be asked to end while its disk hangs."""
OF_KAFKA = {"release"}
"""Read from what Kafka's processes print."""
OF_DATA = {
    "log-directory-offline",
    "replica-moving",
    "replica-moved",
    "replica-begun",
    "replica-follower",
    "replica-isr",
    "replica-leader",
    "replica-truncated",
    "stray-log",
}
"""What brokers trace of their data."""
SETTINGS = {
    "broker.session.timeout.ms": 1_000,
    "broker.heartbeat.interval.ms": 200,
    "metadata.log.max.record.bytes.between.snapshots": 2_000,
    "metadata.max.retention.bytes": 3_000,
    "metadata.log.segment.bytes": 1_024,
    "controller.quorum.fetch.snapshot.max.bytes": 400,
    "kraftprobe.log.clean.interval.ms": 500,
}


@cache
def documented():
    """Event -> fields, from the table."""
    found = {}
    lines = (ROOT / "docs/evidence.md").read_text().splitlines()
    start = lines.index("| event | fields | written |")
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        events, fields, _ = (cell.strip() for cell in line.strip("|").split(" | "))
        for event in WORD.findall(events):
            assert event not in found, f"{event} is documented twice"
            found[event] = set(WORD.findall(re.sub(r"\([^()]*\)", "", fields)))
    return found


@cache
def in_source():
    """Event -> names of the fields that any call traces, from the source."""
    found = defaultdict(set)
    for path in sorted((ROOT / "cluster").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            event = node.args[0]
            if name.lstrip("_") == "trace" and isinstance(event, ast.Constant):
                found[event.value] |= {keyword.arg for keyword in node.keywords if keyword.arg}
    return dict(found)


@pytest.mark.slow
def test_every_event_in_the_source_is_documented_and_the_other_way_round():
    assert set(in_source()) | OF_KAFKA == set(documented())
    assert not OF_KAFKA & set(in_source())


@pytest.mark.slow
def test_every_field_of_an_event_is_documented_and_the_other_way_round():
    fields = {event: names for event, names in in_source().items() if event != "hw"}
    assert fields == {event: documented()[event] for event in fields}
    # A leader's high watermark comes with its replicas, by ** of a dictionary.
    assert documented()["hw"] == in_source()["hw"] | {"replicas"}


def settled(quorum, condition, timeout_ms=60_000):
    assert quorum.scheduler.run_until(condition, timeout_ms)


def asked(quorum, message):
    """The answer of the leader's controller to a request."""
    replies = []
    quorum.node(quorum.elect()).handle("CONTROLLER", message, replies.append)
    settled(quorum, lambda: replies)
    return replies[0]


def is_traced(quorum, event, since=0):
    return any(
        line[2] == event and line[0] >= since
        for node in quorum.world.nodes.values()
        for line in node.trace
    )


def damaging(fetch_response_to_be_damaged):
    """Let the first answers that carry records be damaged on their way."""
    handle = RaftClient.handle

    def handled(client, request, reply):
        def damaged(response):
            if isinstance(response, FetchResponse) and response.records and len(done) < 5:
                done.append(response)
                broken = bytearray(response.records)
                broken[-1] ^= 1
                response = dataclasses.replace(response, records=bytes(broken))
            reply(response)

        handle(client, request, damaged)

    done = fetch_response_to_be_damaged
    return handled


def lose_an_uncommitted_tail(quorum):
    """A leader that is cut off appends what its successor does not have."""
    leader = quorum.elect()
    others = [name for name in quorum.world.names if name != leader]
    for other in others:
        quorum.world.mesh.cut(leader, other)
        quorum.world.mesh.cut(other, leader)
    quorum.append(leader, 5)
    settled(quorum, lambda: quorum.leader() in others)
    for other in others:
        quorum.world.mesh.restore(leader, other)
        quorum.world.mesh.restore(other, leader)
    settled(quorum, lambda: is_traced(quorum, "truncate"))


def replace_a_disk(quorum):
    """A broker comes back without its log: it fetches a snapshot, and reports its directory."""
    leader = quorum.elect()
    wiped = next(name for name in quorum.world.names if name != leader)
    number = int(wiped[1:])
    assigned = (m.CreatableReplicaAssignment(partition_index=0, broker_ids=(number,)),)
    asked(quorum, create(creatable("t", -1, -1, assigned)))
    for _ in range(12):
        quorum.append(quorum.elect(), 20)
        quorum.run(1_000)
    quorum.world.kill(wiped)
    quorum.world.wipe(wiped)
    quorum.run(3_000)
    quorum.world.start(wiped)
    settled(quorum, lambda: is_traced(quorum, "assign-replicas"))


def name_a_second_leader(quorum):
    leader = quorum.elect()
    epoch = quorum.node(leader).raft.state.epoch
    forged = BeginQuorumEpochRequest(None, -1, NO_DIRECTORY, 9, epoch, None)
    assert asked(quorum, forged).error == 42


def put_the_voters_into_the_log(quorum):
    feature = m.FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
    request = m.UpdateFeaturesRequest(
        timeout=m.milliseconds(5_000), feature_updates=(feature,), validate_only=False
    )
    for _ in range(30):
        if asked(quorum, request).error_code == 0:
            return
        quorum.run(500)
    raise AssertionError("the voters have not described themselves")


@pytest.mark.slow
def test_every_documented_event_is_emitted_by_a_scripted_run(monkeypatch):
    damaged = []
    monkeypatch.setattr(RaftClient, "handle", damaging(damaged))
    quorum = Quorum(3, run_node_settings=SETTINGS)
    quorum.elect()
    settled(quorum, lambda: is_traced(quorum, "broker-state"))
    settled(quorum, lambda: is_traced(quorum, "controller-registered"))
    reassignments = m.ListPartitionReassignmentsRequest(timeout=m.milliseconds(5_000), topics=None)
    assert asked(quorum, reassignments).error_code == 0
    put_the_voters_into_the_log(quorum)
    lose_an_uncommitted_tail(quorum)
    name_a_second_leader(quorum)
    quorum.node(quorum.elect()).handle_signal("resign")
    settled(quorum, lambda: is_traced(quorum, "renounce"))
    quorum.run(3_000)
    replace_a_disk(quorum)
    victim = next(name for name in quorum.world.names if name != quorum.elect())
    quorum.world.nodes[victim].disk.fail(OSError(5, "gone"))
    settled(quorum, lambda: is_traced(quorum, "fatal"))

    emitted = defaultdict(set)
    for node in quorum.world.nodes.values():
        for _, _, event, fields, _ in node.trace:
            emitted[event] |= set(fields)
    assert damaged
    for event in OF_DATA:
        emitted.pop(event, None)
    assert set(emitted) == set(documented()) - ENDS_OF_PROCESSES - OF_DATA - OF_KAFKA
    # The simulated world has one clock, which needs no name.
    assert {event: documented()[event] - fields for event, fields in emitted.items()} == {
        event: ONLY_OF_PROCESSES if event == "start" else set() for event in emitted
    }
    assert all(fields <= documented()[event] for event, fields in emitted.items())


def reconnect(brokers, name):
    for other in {"n1", "n2", "n3"} - {name}:
        brokers.world.mesh.restore(name, other)
        brokers.world.mesh.restore(other, name)


def cut_off(brokers, name):
    for other in {"n1", "n2", "n3"} - {name}:
        brokers.world.mesh.cut(name, other)
        brokers.world.mesh.cut(other, name)


def diverge(brokers):
    """A leader that is cut off appends what its successor does not have."""
    brokers.create("diverging")
    assert brokers.produce(1, b"a", name="diverging").error is ErrorCode.none
    cut_off(brokers, "n1")
    assert brokers.produce(1, b"lost", name="diverging", acks=1).error is ErrorCode.none
    assert brokers.until(lambda: brokers.replica(2, "diverging").partition.leader != 1)
    reconnect(brokers, "n1")
    settled(brokers.quorum, lambda: is_traced(brokers.quorum, "replica-truncated"))


def fall_behind_the_log_start(brokers):
    """A follower comes back when its leader has deleted all that it lacks."""
    assert brokers.until(lambda: brokers.unfenced() == {1, 2, 3})
    brokers.create("deleted")
    brokers.world.kill("n3")
    assert brokers.until(lambda: 3 not in brokers.partition("deleted").isr)
    assert brokers.produce(1, b"a", b"b", name="deleted").error is ErrorCode.none
    assert brokers.delete_records(1, 2, name="deleted").error_code is ErrorCode.none
    brokers.world.start("n3")
    settled(brokers.quorum, lambda: is_traced(brokers.quorum, "replica-begun"))


def leave_a_stray(brokers):
    """A topic goes while a broker with records of it is down."""
    brokers.create("stray")
    assert brokers.until(lambda: 3 in brokers.partition("stray").isr)
    assert brokers.produce(1, b"a", name="stray").error is ErrorCode.none
    brokers.world.kill("n3")
    asked(brokers.quorum, delete("stray"))
    brokers.world.start("n3")
    settled(brokers.quorum, lambda: is_traced(brokers.quorum, "stray-log"))


def move_a_replica(brokers):
    """A replica goes to the other log directory of its broker."""
    brokers.create("moved")
    replica, manager = brokers.replica(3, "moved"), brokers.node(3).replicas
    home = manager.logs.holder(replica.at)
    (target,) = [each for each in manager.logs.directories if each is not home]
    manager.moves.begin(replica, target)
    settled(brokers.quorum, lambda: is_traced(brokers.quorum, "replica-moved"))


def damage_a_record(brokers):
    """A record on disk is not what was written; a reader finds it."""
    names = [f"damaged{number}" for number in range(4)]
    for name in names:
        brokers.create(name)
        assert brokers.until(lambda name=name: 3 in brokers.partition(name).isr)
        assert brokers.produce(1, b"a", name=name).error is ErrorCode.none
    brokers.restart_in_order(3)
    assert brokers.until(lambda: all(brokers.replica(3, each) for each in names))
    _, disk = brokers.world.nodes["n3"].disks.values()
    files = disk.files()
    name = next(each for each in names if any(f"{each}-0/" in path for path in files))
    path = f"{name}-0/00000000000000000000.log"
    files[path] = files[path][:-1] + bytes([files[path][-1] ^ 1])
    disk.replace(files)
    assert brokers.until(lambda: brokers.replica(3, name).partition.high_watermark == 1)
    assert brokers.fetch(3, name=name).error is ErrorCode.kafka_storage_error
    settled(brokers.quorum, lambda: is_traced(brokers.quorum, "log-directory-offline"))


@pytest.mark.slow
def test_every_documented_event_of_data_is_emitted_by_a_scripted_run():
    brokers = Brokers(settings=TWO_DIRECTORIES)
    diverge(brokers)
    fall_behind_the_log_start(brokers)
    leave_a_stray(brokers)
    move_a_replica(brokers)
    damage_a_record(brokers)
    emitted = defaultdict(set)
    for node in brokers.world.nodes.values():
        for _, _, event, fields, _ in node.trace:
            if event in OF_DATA:
                emitted[event] |= set(fields)
    assert emitted == {event: documented()[event] for event in OF_DATA}
