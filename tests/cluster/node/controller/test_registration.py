"""BrokerRegistration, UnregisterBroker and ControllerRegistration: every error, and the epochs."""

import uuid

import pytest

from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages as m
from tests.cluster.node.controller.brokers import (
    ALL,
    Brokers,
    feature,
    listener,
    register,
    unregister,
)
from tests.cluster.node.controller.fakes import (
    CLIENT,
    Node,
    active,
    create,
    describe_cluster,
    metadata,
)


def test_a_brokers_epoch_is_the_offset_of_the_record_that_registered_it():
    cluster = Brokers()
    end = cluster.node.raft.end_offset
    assert cluster.register(1).broker_epoch == end
    assert cluster.state.brokers.get(1).epoch == end
    assert cluster.state.brokers.get(1).fenced


def test_the_epoch_counts_the_records_that_clean_up_before_it():
    cluster = Brokers(1, 2)
    topic = cluster.topic(1, 2)
    cluster.node.clock.advance(500)
    cluster.beat(1)
    cluster.beat(2)
    cluster.node.clock.advance(9_000)  # the session has expired, but no event has checked it yet
    assert cluster.partition(topic).isr == (1, 2)
    end = cluster.node.raft.end_offset
    epoch = cluster.register(1, incarnation=2).broker_epoch
    assert epoch == end + 1 == cluster.node.raft.log[-1].last_offset
    assert (cluster.partition(topic).isr, cluster.partition(topic).leader) == ((2,), 2)


def test_the_same_incarnation_amends_its_registration_and_keeps_epoch_and_fencing():
    cluster = Brokers(1)
    first = cluster.epochs[1]
    reply = cluster.register(1, listeners=(listener(host="moved"),))
    assert reply.broker_epoch == first
    broker = cluster.state.brokers.get(1)
    assert (broker.fenced, broker.listeners[0].host) == (False, "moved")


def test_a_live_brokers_id_is_not_given_to_another_incarnation():
    cluster = Brokers(1)
    assert cluster.register(1, 2).error_code == ErrorCode.duplicate_broker_registration
    cluster.node.clock.advance(8_999)
    assert cluster.register(1, 2).error_code == ErrorCode.duplicate_broker_registration
    cluster.node.clock.advance(1)
    assert cluster.register(1, 2).error_code == ErrorCode.none


def test_a_fenced_broker_with_a_session_keeps_its_id_too():
    cluster = Brokers()
    cluster.register(1)
    assert cluster.register(1, 2).error_code == ErrorCode.duplicate_broker_registration


def test_a_broker_in_controlled_shutdown_may_come_back_at_once():
    cluster = Brokers(1, 2)
    cluster.topic(1, 2)
    assert cluster.beat(1, shut_down=True).should_shut_down is False
    assert cluster.register(1, 2).error_code == ErrorCode.none


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other"}, ErrorCode.inconsistent_cluster_id),
        ({"broker_id": -1}, ErrorCode.invalid_request),
        ({"is_migrating_zk_broker": True}, ErrorCode.broker_id_not_registered),
        ({"log_dirs": ()}, ErrorCode.invalid_registration),
        ({"log_dirs": (None,)}, ErrorCode.invalid_registration),
        ({"log_dirs": (uuid.UUID(int=99),)}, ErrorCode.invalid_registration),
        ({"log_dirs": (uuid.UUID(int=100),)}, ErrorCode.none),
        ({"log_dirs": (uuid.UUID(int=500),) * 2}, ErrorCode.invalid_registration),
        ({"log_dirs": (uuid.UUID(int=1_001),)}, ErrorCode.invalid_registration),
        ({"listeners": (listener(), listener())}, ErrorCode.invalid_registration),
        ({"listeners": (listener("x" * 40_000),)}, ErrorCode.invalid_request),
        ({"features": ()}, ErrorCode.invalid_registration),
        ({"features": (feature(low=1, high=29),)}, ErrorCode.unsupported_version),
        ({"features": (feature(low=31, high=31),)}, ErrorCode.unsupported_version),
        ({"features": (feature(low=30, high=30), *ALL[1:])}, ErrorCode.none),
    ],
)
def test_registrations_are_checked(changes, error):
    cluster = Brokers(1)
    before = len(cluster.node.raft.log)
    reply = cluster.node.call(register(2, **changes))
    assert reply.error_code == error
    if error != ErrorCode.none:
        assert reply.broker_epoch == -1
        assert len(cluster.node.raft.log) == before


def test_a_feature_in_force_must_be_supported():
    cluster = Brokers(elr=True)
    assert cluster.register(1, features=(feature(),)).error_code == ErrorCode.unsupported_version
    assert cluster.register(1, features=ALL).error_code == ErrorCode.none


def test_a_node_that_is_not_active_registers_no_broker():
    (reply,) = Node().send(register(1))
    assert reply.error_code == ErrorCode.not_controller


def test_unregistering_takes_a_broker_out_of_the_cluster_and_its_partitions():
    cluster = Brokers(1, 2)
    topic = cluster.topic(1, 2)
    assert cluster.node.call(unregister(1)).error_code == ErrorCode.none
    assert cluster.state.brokers.get(1) is None
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (2, (2,))
    assert cluster.beat(1).error_code == ErrorCode.stale_broker_epoch
    assert cluster.node.call(unregister(1)).error_code == ErrorCode.broker_id_not_registered


def controller(**changes):
    values = {
        "controller_id": 1,
        "incarnation_id": uuid.UUID(int=7),
        "zk_migration_ready": False,
        "listeners": (
            m.ControllerRegistrationListener(name="C", host="h", port=1, security_protocol=0),
        ),
        "features": tuple(
            m.ControllerRegistrationFeature(
                name=known.name,
                min_supported_version=known.min_supported_version,
                max_supported_version=known.max_supported_version,
            )
            for known in ALL
        ),
    }
    return m.ControllerRegistrationRequest(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, ErrorCode.none),
        ({"controller_id": -1}, ErrorCode.invalid_request),
        ({"zk_migration_ready": True}, ErrorCode.invalid_request),
        ({"features": ()}, ErrorCode.invalid_registration),
    ],
)
def test_controllers_register(changes, error):
    node = active()
    assert node.call(controller(**changes)).error_code == error
    found = node.controller.image.state.controllers.get(1)
    assert (found is not None) == (error == ErrorCode.none)


def test_clients_see_registered_brokers_that_are_not_fenced():
    cluster = Brokers(7)
    cluster.register(8)
    (broker,) = cluster.node.call(metadata("x"), CLIENT).brokers
    assert (broker.node_id, broker.host, broker.port) == (7, "b7", 9007)
    (described,) = cluster.node.send(describe_cluster(fenced=False), CLIENT)
    assert [(b.broker_id, b.is_fenced) for b in described.brokers] == [(7, False)]
    (described,) = cluster.node.send(describe_cluster(fenced=True), CLIENT)
    assert [(b.broker_id, b.is_fenced) for b in described.brokers] == [(7, False), (8, True)]


def test_new_partitions_go_to_registered_brokers_and_only_live_ones_are_in_sync():
    cluster = Brokers(7, 8)
    cluster.register(9)
    (result,) = cluster.node.call(create("a")).topics
    assert result.error_code == ErrorCode.none
    topic = cluster.topic(9, 7, name="b")
    partition = cluster.partition(topic)
    assert (partition.replicas, partition.isr, partition.leader) == ((9, 7), (7,), 7)
    assert partition.directories == (uuid.UUID(int=1_009), uuid.UUID(int=1_007))
