"""A broker's lifecycle against a real controller, through a channel that the test can break."""

import random
from itertools import pairwise

import pytest

from cluster.node.broker.lifecycle.registration import (
    BrokerLifecycleManager,
    BrokerState,
    LifecycleConfig,
    RegistrationTimeoutError,
)
from cluster.node.ports import Failure
from cluster.node.protocol.messages import BrokerHeartbeatRequest, BrokerRegistrationRequest
from tests.cluster.node.controller.brokers import register
from tests.cluster.node.controller.fakes import active

CONFIG = LifecycleConfig(register(1))


class Life:
    def __init__(self, seed=1, config=CONFIG):
        self.node = active()
        self.clock = self.node.clock
        self.broken = None  # a Failure, or "silent"
        self.sent, self.fatal, self.done, self.late = [], [], [], []
        self.offset = 10**9
        self.manager = BrokerLifecycleManager(
            config,
            self.clock,
            random.Random(seed),
            lambda *_args, **_fields: None,
            self._channel,
            lambda: self.offset,
            self.fatal.append,
        )
        self.manager.set_ready_to_unfence()

    def _channel(self, request, timeout_ms, on_reply):
        self.sent.append((self.clock.now_ms, request))
        assert timeout_ms == 4_500
        if self.broken == "silent":
            self.late.append(on_reply)
        elif self.broken is not None:
            on_reply(self.broken)
        else:
            replies = self.node.send(request)
            self.node.raft.commit()
            self.node.raft.confirm()
            on_reply(replies[0])

    def registration(self):
        return self.node.controller.image.state.brokers.get(1)


def test_a_broker_registers_and_runs_once_it_is_unfenced():
    life = Life()
    life.manager.start()
    assert life.manager.state is BrokerState.FENCED
    life.clock.advance(1)
    assert life.manager.state is BrokerState.RUNNING
    assert life.registration().epoch == life.manager.broker_epoch
    assert life.registration().fenced is False


def test_a_running_broker_sends_a_heartbeat_every_interval_and_keeps_its_session():
    life = Life()
    life.manager.start()
    life.clock.advance(60_000)
    times = [at for at, request in life.sent if isinstance(request, BrokerHeartbeatRequest)]
    assert times[:4] == [0, 2_000, 4_000, 6_000]
    assert life.registration().fenced is False


def test_a_broker_that_lags_stays_fenced_until_it_has_its_registration():
    life = Life()
    life.offset = 0
    life.manager.start()
    life.clock.advance(1_000)
    assert life.manager.state is BrokerState.FENCED
    life.offset = life.manager.broker_epoch
    life.clock.advance(200)
    assert life.manager.state is BrokerState.RUNNING


def test_a_broker_that_does_not_act_on_metadata_yet_asks_to_stay_fenced():
    life = Life()
    life.manager.ready_to_unfence = False
    life.manager.start()
    life.clock.advance(1_000)
    assert life.manager.state is BrokerState.FENCED
    assert life.sent[-1][1].want_fence
    life.manager.set_ready_to_unfence()
    life.clock.advance(200)
    assert life.manager.state is BrokerState.RUNNING


@pytest.mark.parametrize("broken", [Failure.NOT_SENT, Failure.TIMED_OUT, "silent"])
def test_a_registration_that_fails_is_tried_again_with_the_same_incarnation(broken):
    life = Life()
    life.broken = broken
    life.manager.start()
    life.clock.advance(10_000)
    assert life.registration() is None
    life.broken = None
    life.clock.advance(5_000)
    assert life.manager.state is BrokerState.RUNNING
    asked = [r for _, r in life.sent if isinstance(r, BrokerRegistrationRequest)]
    assert len(asked) > 2
    assert {request.incarnation_id for request in asked} == {life.manager.incarnation_id}


def test_retries_come_at_growing_distances_up_to_the_heartbeat_interval():
    life = Life()
    life.broken = Failure.NOT_SENT
    life.manager.start()
    life.clock.advance(20_000)
    times = [at for at, _ in life.sent]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert 80 <= gaps[0] <= 120
    assert all(1_600 <= gap <= 2_400 for gap in gaps[6:])


def test_an_answer_that_comes_too_late_changes_nothing():
    life = Life()
    life.broken = "silent"
    life.manager.start()
    life.clock.advance(5_000)
    life.broken = None
    stale = life.node.send(life.sent[0][1])
    life.node.raft.commit()
    life.late[0](stale[0])
    assert life.manager.state is BrokerState.NOT_REGISTERED


def test_a_broker_that_is_not_registered_in_time_ends_its_node():
    life = Life()
    life.broken = Failure.NOT_SENT
    life.manager.start()
    life.clock.advance(59_999)
    assert life.fatal == []
    life.clock.advance(1)
    assert isinstance(life.fatal[0], RegistrationTimeoutError)


def test_a_cut_off_broker_is_fenced_and_comes_back():
    life = Life()
    life.manager.start()
    life.clock.advance(1)
    life.broken = Failure.DISCONNECTED
    life.clock.advance(13_000)
    life.node.raft.commit()
    assert life.registration().fenced is True
    life.broken = None
    life.clock.advance(3_000)
    assert life.manager.state is BrokerState.RUNNING
    assert life.registration().fenced is False


def test_a_controlled_shutdown_ends_when_the_controller_lets_go():
    life = Life()
    life.manager.start()
    life.clock.advance(1)
    life.manager.begin_controlled_shutdown(4_000, lambda: life.done.append(life.clock.now_ms))
    assert life.done == [1]
    assert life.registration().fenced is True
    sent = len(life.sent)
    life.clock.advance(60_000)
    assert len(life.sent) == sent
    assert life.manager.state is BrokerState.STOPPED


def test_a_controlled_shutdown_ends_when_its_time_is_over():
    life = Life()
    life.manager.start()
    life.clock.advance(1)
    life.broken = Failure.TIMED_OUT
    life.manager.begin_controlled_shutdown(4_000, lambda: life.done.append(life.clock.now_ms))
    life.clock.advance(10_000)
    assert life.done == [4_001]


def test_a_registration_names_the_epoch_that_was_stopped_in_order():
    life = Life(config=LifecycleConfig(register(1, previous_broker_epoch=17)))
    life.manager.start()
    _, request = life.sent[0]
    assert request.previous_broker_epoch == 17
    first_time = Life()
    first_time.manager.start()
    assert first_time.sent[0][1].previous_broker_epoch == -1
