"""Brokers in simulated worlds: they register, are fenced and come back, and are watched."""

import dataclasses
import uuid

import pytest

from cluster.backends.base import NodeState
from cluster.node.broker.replication.fetcher_manager import ReplicaFetcherManager
from cluster.node.controller.core import periodic
from cluster.node.controller.metadata.registrations import registered_brokers
from cluster.node.controller.metadata.state import (
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
    TopicImage,
)
from cluster.node.controller.partitions import leadership
from cluster.node.controller.records.kinds import BrokerRegistrationChangeRecord
from cluster.node.log.data.directory_checkpoints import read_clean_shutdown
from cluster.node.protocol.messages import CreatableReplicaAssignment
from cluster.systems.kraft import REGISTRATION
from harness.sim.runner import run_plan
from harness.sim.sights.images import ImageSight, ImageWatch, image_of
from harness.sim.swarm.draw import draw
from tests.cluster.node.controller.fakes import alter, creatable, create, describe
from tests.harness.sim.quorums import Quorum, campaign

pytestmark = pytest.mark.slow

SETTINGS = {
    "broker.session.timeout.ms": 1_000,
    "broker.heartbeat.interval.ms": 200,
    "controller.quorum.election.timeout.ms": 200,
    "controller.quorum.fetch.timeout.ms": 200,
}


def brokers(quorum, name):
    state = quorum.node(name).controller.image.state
    return {broker.id: broker.fenced for broker in registered_brokers(state)}


NONE_FENCED = {1: False, 2: False, 3: False}


def unfenced():
    """A quorum whose brokers are all unfenced, what watches its images, and its leader."""
    quorum = Quorum(3, run_node_settings=SETTINGS)
    images = ImageWatch(quorum.world, quorum.monitor)
    leader = quorum.elect()
    assert quorum.scheduler.run_until(lambda: brokers(quorum, leader) == NONE_FENCED, 10_000)
    return quorum, images, leader


def test_a_killed_broker_is_fenced_and_comes_back_as_a_new_incarnation():
    quorum, images, leader = unfenced()
    killed = next(name for name in quorum.world.names if name != leader)
    number = int(killed[1:])
    state = quorum.node(leader).controller.image.state
    before = state.brokers.get(number)
    quorum.world.kill(killed)
    assert quorum.scheduler.run_until(
        lambda: brokers(quorum, leader) == {**NONE_FENCED, number: True}, 10_000
    )
    quorum.world.start(killed)
    assert quorum.scheduler.run_until(lambda: brokers(quorum, leader) == NONE_FENCED, 10_000)
    after = state.brokers.get(number)
    assert after.epoch > before.epoch
    assert after.incarnation_id != before.incarnation_id
    assert quorum.monitor.violations == []
    assert images.images_checked > 10


@pytest.mark.parametrize("registers", [True, False])
def test_a_broker_that_starts_answers_clients_once_it_has_caught_up(registers):
    quorum = Quorum(3, run_node_settings={**SETTINGS, REGISTRATION: int(registers)})
    leader = quorum.elect()
    quorum.run(2_000)
    others = [name for name in quorum.world.names if name != leader]
    killed = others[0]
    quorum.world.kill(killed)
    written = []
    quorum.node(leader).handle("CONTROLLER", alter("k", "v"), written.append)
    assert quorum.scheduler.run_until(lambda: written, 10_000)
    for other in (leader, others[1]):
        quorum.world.mesh.cut(killed, other)
        quorum.world.mesh.cut(other, killed)
    quorum.world.start(killed)
    quorum.run(1_000)
    replies, answer = [], []
    quorum.node(killed).handle("CLIENT", describe(), replies.append)
    quorum.node(killed).handle("CONTROLLER", describe(), answer.append)
    quorum.run(20_000)
    assert not replies
    assert answer, "the controller listener says what it knows"
    for other in (leader, others[1]):
        quorum.world.mesh.restore(killed, other)
        quorum.world.mesh.restore(other, killed)
    assert quorum.scheduler.run_until(lambda: replies, 20_000)
    [result] = replies[0].results
    assert {config.name: config.value for config in result.configs} == {"k": "v"}
    quorum.node(killed).handle("CLIENT", describe(), replies.append)
    assert len(replies) == 2, "and is answered at once"


@pytest.mark.parametrize("registers", [True, False])
def test_a_node_that_is_asked_to_stop_twice_stops_once_and_answers_both(registers):
    quorum = Quorum(3, run_node_settings={**SETTINGS, REGISTRATION: int(registers)})
    leader = quorum.elect()
    quorum.run(2_000)
    answers = []
    quorum.world.stop(leader, lambda: answers.append("first"))
    assert quorum.world.nodes[leader].state is NodeState.RUNNING, "it hands over meanwhile"
    quorum.world.stop(leader, lambda: answers.append("second"))
    assert quorum.scheduler.run_until(lambda: len(answers) == 2, 20_000)
    quorum.run(5_000)
    assert answers == ["first", "second"]
    assert quorum.world.nodes[leader].state is NodeState.DEAD
    assert quorum.leader() not in {None, leader}
    assert quorum.monitor.violations == []


def test_a_broker_with_a_new_disk_reports_its_directory_and_leads_again():
    quorum, images, leader = unfenced()
    wiped = next(name for name in quorum.world.names if name != leader)
    number = int(wiped[1:])
    state = quorum.node(leader).controller.image.state
    assigned = (CreatableReplicaAssignment(partition_index=0, broker_ids=(number,)),)
    replies = []
    request = create(creatable("t", -1, -1, assigned))
    quorum.node(leader).handle("CONTROLLER", request, replies.append)
    assert quorum.scheduler.run_until(lambda: replies, 10_000)

    def partition():
        return state.partition(state.topic_by_name("t").id, 0)

    before = partition()
    assert (before.leader, before.directories) == (number, state.brokers.get(number).log_dirs)
    quorum.world.kill(wiped)
    quorum.world.wipe(wiped)
    assert quorum.scheduler.run_until(
        lambda: brokers(quorum, leader) == {**NONE_FENCED, number: True}, 10_000
    )
    quorum.world.start(wiped)
    assert quorum.scheduler.run_until(
        lambda: brokers(quorum, leader) == NONE_FENCED and partition().leader == number, 20_000
    )
    assert partition().directories == state.brokers.get(number).log_dirs != before.directories

    def reports():
        trace = quorum.world.nodes[wiped].trace
        return [line[3] for line in trace if line[2] == "assign-replicas"]

    assert quorum.scheduler.run_until(reports, 10_000), "it hears that its report was taken"
    assert reports() == [{"partitions": 1}]
    assert quorum.monitor.violations == []
    assert images.images_checked > 10


def test_a_dead_broker_is_fenced_after_a_failover():
    """KAFKA-18138: the new controller has had no heartbeat yet."""
    quorum = Quorum(5, run_node_settings=SETTINGS)
    leader = quorum.elect()
    none_fenced = dict.fromkeys(range(1, 6), False)
    assert quorum.scheduler.run_until(lambda: brokers(quorum, leader) == none_fenced, 10_000)
    killed = next(name for name in quorum.world.names if name != leader)
    quorum.world.kill(killed)
    quorum.world.kill(leader)
    survivor = quorum.running()[0]
    dead = {int(killed[1:]), int(leader[1:])}
    expected = {number: number in dead for number in none_fenced}
    assert quorum.scheduler.run_until(lambda: brokers(quorum, survivor) == expected, 30_000)


PLAN = {"node_settings": SETTINGS, "faults": ["kill"], "workload": "topics", "duration_s": 15}


def test_the_monitor_accepts_a_correct_controller():
    _, monitor, events, _ = campaign(seed=2, **PLAN)
    assert monitor.violations == []
    assert sum(event.f == "create" and event.type == "ok" for event in events) > 20


def test_a_controller_that_fences_a_broker_and_leaves_it_in_sync_is_found(monkeypatch):
    def careless(_state, broker):
        return [
            BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1)
        ]

    monkeypatch.setattr(periodic, "broker_fenced", careless)
    monkeypatch.setattr(leadership, "broker_fenced", careless)
    _, monitor, _, _ = campaign(seed=3, **PLAN)
    assert "valid-brokers" in {violation.property for violation in monitor.violations}


def test_images_that_differ_and_epochs_that_do_not_grow_are_found():
    quorum = Quorum(3, run_node_settings=SETTINGS)
    images = ImageWatch(quorum.world, quorum.monitor)
    leader = quorum.elect()
    assert quorum.scheduler.run_until(lambda: len(brokers(quorum, leader)) == 3, 10_000)
    assert quorum.monitor.violations == []
    state = quorum.node(leader).controller.image.state
    one = state.brokers.get(1)
    state.brokers.put(1, dataclasses.replace(one, epoch=one.epoch - 1))
    quorum.run(2_000)
    found = {violation.property for violation in quorum.monitor.violations}
    assert {"image-agreement", "broker-epoch"} <= found
    assert images.images_checked > 3


def test_a_new_replica_is_placed_by_the_registration_that_its_broker_had_then():
    """Seed 31000071 of 120 s: one came back with a directory less, and the topic was not new."""
    quorum, _, leader = unfenced()
    state = quorum.node(leader).controller.image.state
    broker = state.brokers.get(1)
    one, topic = broker.log_dirs[0], uuid.uuid4()
    state.brokers.put(1, dataclasses.replace(broker, log_dirs=(one, uuid.uuid4())))
    state.topics.put(topic, TopicImage("t", topic, 1))
    sight = ImageSight(1)
    sight.look(1, state)

    def unplaced(index):
        """By the next image, of a partition on brokers 1 and 2, of which 2 has one directory."""
        changes = sight.look(sight.offset + 1, state)
        image = image_of(sight.offset, state, changes, sight.digest)
        return image.affected[topic, index].unplaced

    def add(index):
        nowhere = (UNASSIGNED_DIRECTORY,) * 2
        new = PartitionRegistration((1, 2), (1, 2), 1, 0, 0, directories=nowhere)
        state.partitions.put((topic, index), new)

    add(0)
    assert unplaced(0) == {2}
    add(1)
    state.brokers.put(1, dataclasses.replace(broker, log_dirs=(one,)))
    assert unplaced(1) == {2}, "when it was made, 1 had two directories"
    state.brokers.put(1, dataclasses.replace(broker, fenced=True))
    assert unplaced(1) == frozenset(), "it is not new"
    add(2)
    assert unplaced(2) == {1, 2}


def registering(seeds):
    found = [draw(seed) for seed in seeds]
    return [plan for plan in found if plan.node_settings[REGISTRATION] and plan.workload != "log"]


def test_brokers_of_some_seeds_register_for_workloads_of_their_own():
    plans = registering(range(200))
    assert 15 < len(plans) < 65
    assert {"brokers", "append", "partitions"} <= {one.workload for one in plans}


@pytest.mark.parametrize("plan", registering(range(50))[:6], ids=lambda one: one.campaign)
def test_drawn_worlds_with_brokers_are_silent(plan):
    assert run_plan(plan).violations == ()


class Restarts:
    """A partition with three replicas and a minimum of two in sync, whose brokers restart."""

    def __init__(self, **settings):
        self.quorum = Quorum(3, run_node_settings={**SETTINGS, **settings})
        self.images = ImageWatch(self.quorum.world, self.quorum.monitor)
        self.quorum.elect()
        self.until_all_run()
        assigned = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1, 2, 3)),)
        request = create(creatable("t", -1, -1, assigned, {"min.insync.replicas": "2"}))
        replies = []
        self.quorum.node(self.quorum.leader()).handle("CONTROLLER", request, replies.append)
        assert self.quorum.scheduler.run_until(lambda: replies, 10_000)
        self.seen = []
        """The partition after each change, the oldest first."""
        self.until(lambda: self.partition is not None)

    @property
    def partition(self):
        leader = self.quorum.leader()
        if leader is not None:
            state = self.quorum.node(leader).controller.image.state
            topic = state.topic_by_name("t")
            found = None if topic is None else state.partition(topic.id, 0)
            if found is not None and (not self.seen or self.seen[-1] != found):
                self.seen.append(found)
        return self.seen[-1] if self.seen else None

    def until(self, condition):
        def met():
            assert self.partition is not None
            return condition()

        assert self.quorum.scheduler.run_until(met if self.seen else condition, 30_000)

    def until_all_run(self):
        def all_run():
            leader = self.quorum.leader()
            return leader is not None and brokers(self.quorum, leader) == {
                1: False,
                2: False,
                3: False,
            }

        assert self.quorum.scheduler.run_until(all_run, 30_000)

    def file(self, name):
        return read_clean_shutdown(self.quorum.world.nodes[name].disk)

    def restart(self, name, *, gracefully=True):
        """Let a broker leave, and come back as another incarnation."""
        world, number = self.quorum.world, int(name[1:])
        before, ended = self.epoch(number), []
        if gracefully:
            world.stop(name, lambda: ended.append(name))
            self.until(lambda: ended)
            assert self.file(name) > 0
        else:
            world.kill(name)
            self.until(lambda: number not in self.partition.isr)
            assert self.file(name) is None
        world.start(name)
        self.until(lambda: self.epoch(number) > before)
        assert self.file(name) is None, "it is gone before the broker registers"
        self.until_all_run()

    def epoch(self, number):
        leader = self.quorum.leader()
        if leader is None:
            return -1
        return self.quorum.node(leader).controller.image.state.brokers.get(number).epoch


def test_a_graceful_rolling_restart_leaves_replicas_that_may_lead():
    restarts = Restarts()
    for _ in range(2):
        for name in ("n1", "n2", "n3"):
            restarts.restart(name)
    restarts.until(lambda: restarts.partition.leader != -1)
    assert all(seen.isr or seen.elr for seen in restarts.seen)
    assert {seen.leader_recovery_state for seen in restarts.seen} == {0}
    restarts.until(lambda: set(restarts.partition.isr) == {1, 2, 3})
    assert restarts.quorum.monitor.violations == []
    assert restarts.images.images_checked > 10


def test_a_broker_that_was_killed_is_not_eligible(monkeypatch):
    # Who does not fetch never comes back into the ISR, and is not taken out of it for that.
    monkeypatch.setattr(ReplicaFetcherManager, "add", lambda *_: None)
    restarts = Restarts(**{"replica.lag.time.max.ms": 3_600_000})
    restarts.restart("n1")
    restarts.restart("n2")
    assert (restarts.partition.isr, restarts.partition.elr) == ((3,), (2,))
    restarts.quorum.world.kill("n2")
    restarts.quorum.run(3_000)
    assert restarts.partition.elr == (2,), "nobody knows yet that it is more than slow"
    restarts.quorum.world.start("n2")
    restarts.until(lambda: restarts.partition.elr == ())
    restarts.restart("n3", gracefully=False)
    restarts.until(lambda: restarts.partition.leader == 3)
    assert restarts.partition.leader_recovery_state == 1, "nobody is sure to have everything"
    assert restarts.quorum.monitor.violations == []
