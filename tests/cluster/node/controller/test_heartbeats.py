"""BrokerHeartbeat: every transition, sessions, fencing, and what a new controller does with them."""

import pytest

from cluster.node.controller.brokers.broker_lifecycle import BrokerControlState, next_control_state
from cluster.node.errors import ErrorCode
from tests.cluster.node.controller.brokers import Brokers, allocate, heartbeat, register
from tests.cluster.node.controller.fakes import alter

FENCED, UNFENCED, CONTROLLED, NOW = BrokerControlState


class Registered:
    epoch = 5
    in_controlled_shutdown = False


@pytest.mark.parametrize(
    ("current", "offset", "fence", "shut_down", "leads", "dispensable", "following"),
    [
        (FENCED, 5, False, False, False, False, UNFENCED),
        (FENCED, 4, False, False, False, False, FENCED),
        (FENCED, 5, True, False, False, False, FENCED),
        (FENCED, 4, False, True, False, False, NOW),
        (FENCED, 5, True, True, True, False, NOW),
        (UNFENCED, 5, False, False, True, True, UNFENCED),
        (UNFENCED, 4, False, False, False, False, UNFENCED),
        (UNFENCED, 5, True, False, True, False, FENCED),
        (UNFENCED, 5, True, True, True, False, NOW),
        (UNFENCED, 5, False, True, True, True, CONTROLLED),
        (UNFENCED, 5, False, True, False, False, NOW),
        (CONTROLLED, 5, False, True, True, True, CONTROLLED),
        (CONTROLLED, 5, False, True, False, False, CONTROLLED),
        (CONTROLLED, 5, False, True, False, True, NOW),
        (CONTROLLED, 5, False, False, False, True, NOW),
        (CONTROLLED, 5, True, False, True, True, CONTROLLED),
    ],
)
def test_the_next_state_is_kafkas(current, offset, fence, shut_down, leads, dispensable, following):
    request = heartbeat(1, 5, offset, fence=fence, shut_down=shut_down)
    found = next_control_state(current, request, Registered(), lambda: leads, lambda: dispensable)
    assert found is following


def test_a_heartbeat_before_registration_and_one_of_another_epoch_are_refused():
    cluster = Brokers(1)
    call = cluster.node.call
    assert call(heartbeat(2, 1)).error_code == ErrorCode.stale_broker_epoch
    for epoch in (cluster.epochs[1] - 1, cluster.epochs[1] + 1):
        assert call(heartbeat(1, epoch)).error_code == ErrorCode.stale_broker_epoch


def test_a_broker_is_unfenced_once_it_has_its_own_registration_however_long_the_log():
    cluster = Brokers()
    epoch = cluster.register(1).broker_epoch
    for index in range(20):
        cluster.node.call(alter("k", str(index)))
    reply = cluster.beat(1, epoch - 1)
    assert (reply.is_caught_up, reply.is_fenced) == (False, True)
    reply = cluster.beat(1, epoch)
    assert (reply.is_caught_up, reply.is_fenced) == (True, False)
    assert cluster.state.brokers.get(1).fenced is False


def test_a_silent_broker_is_fenced_after_its_session_and_leaves_the_isr_first():
    cluster = Brokers(1, 2)
    topic = cluster.topic(1, 2)
    cluster.advance(8_000, 2)
    assert cluster.state.brokers.get(1).fenced is False
    cluster.advance(4_000, 2)
    assert cluster.state.brokers.get(1).fenced is True
    assert (cluster.partition(topic).isr, cluster.partition(topic).leader) == ((2,), 2)
    kinds = [value[1] for value in cluster.node.raft.log[-1].records]
    assert kinds == [5, 17]


def test_brokers_that_die_together_are_fenced_one_by_one_each_from_what_the_last_left():
    """KAFKA-13173: computed from one state, both fencings would shrink the same ISR."""
    cluster = Brokers(1, 2, 3)
    topic = cluster.topic(1, 2, 3)
    cluster.advance(12_000, 3)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.leader, partition.partition_epoch) == ((3,), 3, 2)
    fenced = [b for b in cluster.node.raft.log if any(r[1] == 17 for r in b.records)]
    assert len(fenced) == 3 + 2  # unfenced thrice, then two events


def test_a_new_controller_gives_every_unfenced_broker_a_fresh_session_and_then_fences_it():
    """KAFKA-18138: a broker that dies together with the controller is fenced all the same."""
    cluster = Brokers(1)
    cluster.node.clock.advance(8_000)
    cluster.node.raft.lose()
    cluster.node.raft.commit()
    cluster.node.raft.elect()
    cluster.node.clock.advance(8_000)
    cluster.node.raft.commit()
    assert cluster.state.brokers.get(1).fenced is False
    cluster.node.clock.advance(4_000)
    cluster.node.raft.commit()
    assert cluster.state.brokers.get(1).fenced is True


def test_a_controller_that_renounced_fences_no_broker():
    cluster = Brokers(1)
    cluster.node.raft.lose()
    before = len(cluster.node.raft.log)
    cluster.node.clock.advance(100_000)
    assert len(cluster.node.raft.log) == before


def test_a_broker_that_leads_nothing_shuts_down_at_once_and_is_fenced():
    cluster = Brokers(1)
    reply = cluster.beat(1, shut_down=True)
    assert (reply.should_shut_down, reply.is_fenced) == (True, True)
    assert cluster.state.brokers.get(1).fenced is True


def test_a_controlled_shutdown_waits_until_the_other_brokers_have_caught_up():
    cluster = Brokers(1, 2, 3)
    topic = cluster.topic(1, 2)
    reply = cluster.beat(1, offset=100, shut_down=True)
    assert (reply.should_shut_down, reply.is_fenced) == (False, False)
    assert cluster.partition(topic).leader == 2
    assert cluster.state.brokers.get(1).in_controlled_shutdown
    moved = cluster.node.raft.end_offset - 1
    manager = cluster.node.controller.heartbeats
    assert manager.may_shut_down(1, cluster.state)  # 2 and 3 had reported that they have everything
    manager._metadata_offsets[2] = moved - 1
    assert cluster.beat(1, shut_down=True).should_shut_down is False
    manager._metadata_offsets[2] = moved
    assert cluster.beat(1, shut_down=True).should_shut_down is True


def test_a_registration_that_comes_again_lets_no_broker_end_earlier():
    cluster = Brokers(1, 2)
    cluster.topic(1, 2)
    cluster.beat(2, offset=100)
    assert cluster.beat(1, offset=100, shut_down=True).should_shut_down is False
    cluster.node.call(register(1))  # a late copy of the one that it has
    cluster.node.controller.heartbeats._metadata_offsets[2] = cluster.epochs[2]
    assert cluster.beat(1, shut_down=True).should_shut_down is False


def test_an_incarnation_that_shut_down_is_not_unfenced_again():
    cluster = Brokers(1)
    cluster.topic(1)
    cluster.beat(1, shut_down=True)
    assert cluster.beat(1, shut_down=True).should_shut_down is True
    assert cluster.beat(1).is_fenced is True
    cluster.join(1, incarnation=1)


def test_a_broker_in_controlled_shutdown_is_not_let_into_an_isr():
    cluster = Brokers(1, 2)
    topic = cluster.topic(1, 2)
    cluster.beat(1, shut_down=True)
    assert cluster.alter(topic, (2, 1)).error_code == ErrorCode.ineligible_replica


def test_producer_ids_are_given_to_registered_epochs_only():
    cluster = Brokers(1)
    for broker, epoch in ((1, cluster.epochs[1] + 1), (2, 1)):
        reply = cluster.node.call(allocate(broker, epoch))
        assert reply.error_code == ErrorCode.stale_broker_epoch
