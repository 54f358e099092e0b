"""Log directories (KIP-858): AssignReplicasToDirs, directories that go offline, elections."""

import uuid

import pytest

from cluster.node.controller.brokers.broker_lifecycle import BrokerControlState
from cluster.node.controller.metadata.registrations import LOST_DIRECTORY, MIGRATING_DIRECTORY
from cluster.node.controller.metadata.state import UNASSIGNED_DIRECTORY
from cluster.node.errors import ErrorCode
from tests.cluster.node.controller.brokers import ELR, Brokers, assign, faults_of, heartbeat
from tests.cluster.node.controller.fakes import metadata
from tests.cluster.node.controller.test_reassignment import reassign

A, B, C = uuid.UUID(int=1_001), uuid.UUID(int=2_001), uuid.UUID(int=3_001)
ELSEWHERE = uuid.UUID(int=9_999)


def cluster_of(*others, **options):
    """Broker 1 has the directories A and B, the others have one each."""
    cluster = Brokers(**options)
    cluster.join(1, log_dirs=(A, B))
    for broker in others:
        cluster.join(broker)
    return cluster


def assigned(cluster, broker, directory, topic, index=0):
    reply = cluster.node.call(assign(broker, cluster.epochs[broker], directory, topic, index))
    (only,) = reply.directories
    assert only.id_ == directory
    return only.topics[0].partitions[0].error_code


def sound(cluster):
    return faults_of(cluster.state) == []


def test_a_replica_of_a_broker_with_several_directories_is_unassigned_until_it_reports():
    cluster = cluster_of(2)
    topic = cluster.topic(1, 2)
    only = cluster.state.brokers.get(2).log_dirs[0]
    assert cluster.partition(topic).directories == (UNASSIGNED_DIRECTORY, only)
    assert assigned(cluster, 1, B, topic) is ErrorCode.none
    after = cluster.partition(topic)
    assert (after.directories, after.partition_epoch, after.leader_epoch) == ((B, only), 1, 0)
    assert sound(cluster)


def test_an_assignment_that_is_known_costs_no_record():
    cluster = cluster_of()
    topic = cluster.topic(1)
    assigned(cluster, 1, A, topic)
    before = len(cluster.node.raft.log)
    assert assigned(cluster, 1, A, topic) is ErrorCode.none
    assert len(cluster.node.raft.log) == before


@pytest.mark.parametrize("epoch", [-1, 1])
def test_a_stale_epoch_refuses_the_whole_assignment(epoch):
    cluster = cluster_of()
    topic = cluster.topic(1)
    reply = cluster.node.call(assign(1, cluster.epochs[1] + epoch, A, topic))
    assert (reply.error_code, reply.directories) == (ErrorCode.stale_broker_epoch, ())
    reply = cluster.node.call(assign(7, 1, A, topic))
    assert reply.error_code == ErrorCode.stale_broker_epoch


def test_every_partition_has_an_outcome_of_its_own():
    cluster = cluster_of(2)
    mine, others = cluster.topic(1), cluster.topic(2, name="u")
    assert assigned(cluster, 1, A, uuid.UUID(int=5)) is ErrorCode.unknown_topic_id
    assert assigned(cluster, 1, A, None) is ErrorCode.unknown_topic_id
    assert assigned(cluster, 1, A, mine, 1) is ErrorCode.unknown_topic_or_partition
    assert assigned(cluster, 1, A, others) is ErrorCode.not_leader_or_follower
    request = assign(1, cluster.epochs[1], A, mine, 0, 1, 0)
    (topic,) = cluster.node.call(request).directories[0].topics
    assert [(item.partition_index, item.error_code) for item in topic.partitions] == [
        (0, ErrorCode.none),
        (1, ErrorCode.unknown_topic_or_partition),
        (0, ErrorCode.invalid_request),
    ]
    assert cluster.partition(mine).directories == (A,)


@pytest.mark.parametrize("elr", [False, True])
def test_a_directory_that_goes_offline_moves_the_leaders_in_it_and_no_others(elr):
    cluster = cluster_of(2, elr=elr)
    lost, kept = cluster.topic(1, 2), cluster.topic(1, 2, name="u")
    assigned(cluster, 1, A, lost)
    assigned(cluster, 1, B, kept)
    assert cluster.beat(1, offline_log_dirs=(A,)).is_fenced is False
    assert (cluster.partition(lost).leader, cluster.partition(lost).isr) == (2, (2,))
    assert (cluster.partition(kept).leader, cluster.partition(kept).isr) == (1, (1, 2))
    assert cluster.state.brokers.get(1).log_dirs == (B,)
    before = len(cluster.node.raft.log)
    cluster.beat(1, offline_log_dirs=(A, ELSEWHERE))
    assert len(cluster.node.raft.log) == before, "it is known already"
    assert sound(cluster)


def test_no_replica_leads_from_an_offline_directory_until_it_is_elsewhere():
    cluster = cluster_of(2)
    topic = cluster.topic(1)
    assigned(cluster, 1, A, topic)
    cluster.beat(1, offline_log_dirs=(A,))
    partition = cluster.partition(topic)
    assert (partition.leader, partition.isr) == (-1, (1,))
    cluster.node.clock.advance(11_000)
    cluster.beat(1)
    assert cluster.partition(topic).leader == -1
    assert sound(cluster)
    assert assigned(cluster, 1, B, topic) is ErrorCode.none
    partition = cluster.partition(topic)
    assert (partition.leader, partition.directories) == (1, (B,))
    assert sound(cluster)


def test_a_replica_assigned_to_an_offline_directory_leaves_the_isr():
    cluster = cluster_of(2)
    topic = cluster.topic(1, 2)
    assert assigned(cluster, 1, ELSEWHERE, topic) is ErrorCode.none
    partition = cluster.partition(topic)
    assert (partition.leader, partition.isr, partition.directories[0]) == (2, (2,), ELSEWHERE)
    assert assigned(cluster, 2, LOST_DIRECTORY, topic) is ErrorCode.none
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (-1, (2,))
    assert sound(cluster)


def test_clients_see_that_a_replica_in_an_offline_directory_is_offline():
    cluster = cluster_of(2)
    topic = cluster.topic(1, 2)
    assigned(cluster, 1, A, topic)
    cluster.beat(1, offline_log_dirs=(A,))
    (topic,) = cluster.node.call(metadata("t"), "CLIENT").topics
    assert topic.partitions[0].offline_replicas == (1,)


def test_a_broker_without_any_directory_is_fenced_and_stays_so():
    cluster = cluster_of(2)
    topic = cluster.topic(1, 2)
    assert cluster.beat(1, offline_log_dirs=(A, B)).is_fenced is True
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (2, (2,))
    assert cluster.beat(1, offline_log_dirs=(A, B)).is_fenced is True
    assert cluster.state.brokers.get(1).fenced
    assert sound(cluster)


def test_a_broker_is_unfenced_only_after_what_it_holds_offline_is_known():
    cluster = cluster_of(2)
    topic = cluster.topic(1)
    assigned(cluster, 1, A, topic)
    cluster.advance(11_000, 2)
    assert cluster.state.brokers.get(1).fenced
    assert cluster.beat(1, offline_log_dirs=(A,)).is_fenced is True
    assert cluster.beat(1, offline_log_dirs=(A,)).is_fenced is False
    assert cluster.partition(topic).leader == -1
    assert sound(cluster)


def test_directories_that_go_offline_with_a_shutdown_leave_the_registration_too():
    cluster = cluster_of(2)
    topic = cluster.topic(1, 2)
    assigned(cluster, 1, A, topic)
    request = heartbeat(1, cluster.epochs[1], shut_down=True, offline_log_dirs=(A,))
    cluster.node.call(request)
    broker = cluster.state.brokers.get(1)
    assert (broker.in_controlled_shutdown, broker.log_dirs) == (True, (B,))
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (2, (2,))
    assert BrokerControlState.CONTROLLED_SHUTDOWN.is_fenced is False


def test_an_incarnation_that_registers_fewer_directories_leaves_what_it_led_in_the_others():
    cluster = cluster_of(2)
    topic = cluster.topic(1, 2)
    assigned(cluster, 1, A, topic)
    assert cluster.register(1, log_dirs=(B,)).error_code == ErrorCode.none
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (2, (2,))
    assert sound(cluster)


def test_a_broker_with_a_new_disk_leads_again_only_once_it_has_reported_its_directory():
    cluster = cluster_of(2)
    topic = cluster.topic(2)
    cluster.advance(11_000, 1)
    cluster.join(2, incarnation=1, log_dirs=(C,))
    assert cluster.partition(topic).leader == -1
    assert assigned(cluster, 2, C, topic) is ErrorCode.none
    assert cluster.partition(topic).leader == 2
    assert sound(cluster)


def test_replicas_that_change_places_take_their_directories_along():
    cluster = cluster_of(2)
    topic = cluster.topic(1, 2)
    assigned(cluster, 1, A, topic)
    first, second = cluster.partition(topic).directories
    cluster.node.call(reassign(("t", 0, (2, 1))))
    partition = cluster.partition(topic)
    assert (partition.replicas, partition.directories) == ((2, 1), (second, first))


def test_a_replica_of_a_partition_without_directories_counts_as_online():
    cluster = Brokers()
    cluster.register(1, log_dirs=(A, B))
    cluster.beat(1)
    topic = cluster.topic(1)
    for state in (cluster.state, cluster.node.controller.speculative.state):
        old = state.partition(topic, 0)
        state.partitions.put((topic, 0), type(old)((1,), (1,), 1, 0, 0))
    assert assigned(cluster, 1, B, topic) is ErrorCode.none
    assert cluster.partition(topic).leader == 1
    assert MIGRATING_DIRECTORY not in cluster.partition(topic).directories


def test_the_eligible_leader_in_an_offline_directory_is_passed_over():
    cluster = cluster_of(2, elr=True)
    topic = cluster.topic(2, 1, configs={"min.insync.replicas": "2"})
    assigned(cluster, 1, A, topic)
    cluster.alter(topic, (2,))
    assert cluster.partition(topic).elr == (1,)
    cluster.beat(1, offline_log_dirs=(A,))
    cluster.advance(11_000, 1)
    partition = cluster.partition(topic)
    assert (partition.leader, partition.isr) == (-1, ())
    assert set(partition.elr) == {1, 2}
    assert ELR in list(cluster.state.features.keys())
