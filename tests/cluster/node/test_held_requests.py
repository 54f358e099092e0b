"""Clients that ask brokers while the quorum has no controller, in simulated worlds."""

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumRequest
from cluster.systems.kraft import FORWARDING_HOLD, REGISTRATION
from tests.cluster.node.controller.fakes import alter, creatable, create
from tests.harness.sim.hooks import at_event
from tests.harness.sim.quorums import Quorum

SETTINGS = {
    "controller.quorum.election.timeout.ms": 200,
    "controller.quorum.fetch.timeout.ms": 200,
    "broker.heartbeat.interval.ms": 200,
    "kraftprobe.registration": 1,
}
UNKNOWN = {ErrorCode.unknown_server_error, ErrorCode.request_timed_out}


class Writers:
    """Clients of some brokers, each of which writes something new now and then."""

    def __init__(self, quorum, make):
        self.quorum, self.make = quorum, make
        self.answers = {}
        self.sent = []

    def write(self, name):
        node = self.quorum.node(name)
        if node is not None:
            number = len(self.sent)
            self.sent.append(number)
            self.answers[number] = []
            node.handle("CLIENT", self.make(number), self.answers[number].append)

    def write_for(self, ms, every_ms, names):
        for _ in range(int(ms / every_ms)):
            for name in names:
                self.write(name)
            self.quorum.run(every_ms)

    def errors(self):
        """By number: None where the broker died with the question."""
        return {
            number: error_of(answers[0]) if answers else None
            for number, answers in self.answers.items()
        }

    def all_answered(self):
        return all(self.answers.values())


def error_of(answer):
    (result,) = answer.responses if hasattr(answer, "responses") else answer.topics
    return result.error_code


def config(number):
    return alter(f"k{number}", str(number))


def topic(number):
    return create(creatable(f"t{number}", 1, 1))


def started(seed, **settings):
    quorum = Quorum(3, seed, run_node_settings={**SETTINGS, **settings})
    leader = quorum.elect()
    unfenced = [
        lambda name=name: quorum.node(name).lifecycle.state.value == "running"
        for name in quorum.world.names
    ]
    assert quorum.scheduler.run_until(lambda: all(ready() for ready in unfenced), 20_000)
    return quorum, leader, [name for name in quorum.world.names if name != leader]


def held(quorum):
    """Requests and timers that the brokers have left."""
    managers = [quorum.node(name).forwarding for name in quorum.running()]
    return [(manager._held, manager._timer, manager._waiting) for manager in managers]


def keys_of(quorum, name):
    configs = quorum.node(name).controller.image.state.configs
    return {key for _, key in configs.keys()}  # noqa: SIM118 - a map of the image is no dict


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("make", [config, topic])
def test_writes_through_brokers_outlive_the_leader(seed, make):
    quorum, leader, others = started(seed)
    quorum.world.kill(leader)
    writers = Writers(quorum, make)
    writers.write_for(1_500, 25, others)
    assert quorum.scheduler.run_until(writers.all_answered, 20_000)
    assert set(writers.errors().values()) == {ErrorCode.none}
    assert quorum.elect() in others
    quorum.run(1_000)
    state = quorum.node(quorum.leader()).controller.image.state
    for number in writers.sent:
        if make is topic:
            assert state.topic_by_name(f"t{number}") is not None
        else:
            assert f"k{number}" in keys_of(quorum, quorum.leader())
    assert held(quorum) == [(0, None, [])] * 2
    assert quorum.monitor.violations == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_leader_that_resigns_while_it_answers_hides_that_from_its_own_clients(seed):
    quorum, leader, _ = started(seed)
    writers = Writers(quorum, config)
    writers.write_for(60, 10, quorum.world.names)
    quorum.node(leader).handle_signal("resign")
    writers.write_for(1_000, 10, quorum.world.names)
    assert quorum.scheduler.run_until(writers.all_answered, 20_000)
    errors = writers.errors()
    assert set(errors.values()) <= {ErrorCode.none, *UNKNOWN}
    assert sum(error is ErrorCode.none for error in errors.values()) > 0.9 * len(errors)
    quorum.run(1_000)
    present = keys_of(quorum, quorum.elect())
    assert {f"k{n}" for n, error in errors.items() if error is ErrorCode.none} <= present
    assert held(quorum) == [(0, None, [])] * 3
    assert quorum.monitor.violations == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_no_request_is_carried_out_twice_though_its_answer_is_lost(seed):
    quorum, leader, others = started(seed)
    at_event(quorum.world, "ack", lambda: quorum.world.kill(leader), node=leader, nth=3)
    writers = Writers(quorum, topic)
    writers.write_for(1_500, 10, others)
    assert quorum.scheduler.run_until(writers.all_answered, 40_000)
    errors = writers.errors()
    assert set(errors.values()) == {ErrorCode.none, ErrorCode.request_timed_out}
    quorum.run(1_000)
    state = quorum.node(quorum.elect()).controller.image.state
    lost = [n for n, error in errors.items() if error is ErrorCode.request_timed_out]
    assert any(state.topic_by_name(f"t{n}") is not None for n in lost), "it was carried out"
    for number in set(errors) - set(lost):
        (answer,) = writers.answers[number]
        assert state.topic_by_name(f"t{number}").id == answer.topics[0].topic_id
    assert held(quorum) == [(0, None, [])] * 2
    assert quorum.monitor.violations == []


def test_the_quorum_is_described_once_there_is_a_leader():
    quorum, leader, others = started(1)
    quorum.world.kill(leader)
    quorum.run(50)
    answers = []
    quorum.node(others[0]).handle("CLIENT", DescribeQuorumRequest(), answers.append)
    assert quorum.scheduler.run_until(lambda: answers, 20_000)
    assert answers[0].error is answers[0].top_level_error is ErrorCode.none
    assert f"n{answers[0].leader_id}" == quorum.leader()


def without_a_majority(**settings):
    """A broker that has lost the rest of its quorum, with one write in its hands."""
    quorum, leader, others = started(1, **settings)
    for name in (leader, others[0]):
        quorum.world.kill(name)
    writers = Writers(quorum, config)
    writers.write(others[1])
    return quorum, writers, others[1]


def test_a_broker_that_shuts_down_answers_what_it_holds():
    quorum, writers, left = without_a_majority()
    quorum.run(3_000)
    assert not writers.all_answered()
    quorum.world.stop(left)
    quorum.run(10)
    assert writers.errors() == {0: ErrorCode.not_controller}


def test_without_a_controller_in_time_it_is_known_that_nothing_was_appended():
    quorum, writers, left = without_a_majority()
    assert quorum.scheduler.run_until(writers.all_answered, 30_000)
    assert writers.errors() == {0: ErrorCode.not_controller}
    assert held(quorum) == [(0, None, [])]
    assert left in quorum.running()


@pytest.mark.parametrize("registers", [0, 1])
def test_a_node_that_does_not_hold_answers_at_once(registers):
    quorum, writers, _ = (
        without_a_majority(**{FORWARDING_HOLD: 0})
        if registers
        else unregistered_without_a_majority()
    )
    quorum.run(100)
    assert writers.errors() == {0: ErrorCode.not_controller}


def unregistered_without_a_majority():
    quorum = Quorum(3, 1, run_node_settings={**SETTINGS, REGISTRATION: 0, FORWARDING_HOLD: 0})
    leader = quorum.elect()
    quorum.run(1_000)
    others = [name for name in quorum.world.names if name != leader]
    for name in (leader, others[0]):
        quorum.world.kill(name)
    writers = Writers(quorum, config)
    writers.write(others[1])
    return quorum, writers, others[1]


def test_a_broker_that_lost_its_registration_answers_what_it_holds_and_says_so_once():
    quorum, leader, others = started(1)
    node = quorum.node(others[0])
    epoch = node.lifecycle.broker_epoch
    node.lifecycle.broker_epoch = epoch + 1  # as if another had been registered
    node.forwarding._leader = lambda: None
    node.forwarding._leads = lambda: False
    writers = Writers(quorum, config)
    writers.write(others[0])
    quorum.run(5_000)
    assert writers.errors() == {0: ErrorCode.not_controller}
    said = [
        fields
        for _, _, event, fields, _ in quorum.world.nodes[others[0]].trace
        if event == "unregistered"
    ]
    assert said == [{"broker_epoch": epoch + 1, "reason": "stale_broker_epoch"}]
    assert quorum.leader() == leader


def test_the_same_seed_holds_and_answers_alike():
    def trace():
        quorum, leader, others = started(3)
        quorum.world.kill(leader)
        writers = Writers(quorum, config)
        writers.write_for(1_000, 20, others)
        quorum.run(2_000)
        return {name: quorum.world.nodes[name].trace for name in quorum.world.names}

    assert trace() == trace()
