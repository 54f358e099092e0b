"""AlterPartition's checks in their order, elections, and eligible leader replicas."""

import uuid

import pytest

from cluster.node.controller.metadata.state import ConfigResource
from cluster.node.controller.partitions.leadership import is_unclean_election_enabled
from cluster.node.errors import ErrorCode
from tests.cluster.node.controller.brokers import ELR, Brokers, alter_isr, unregister, update
from tests.cluster.node.controller.fakes import alter


def test_a_leader_shrinks_and_expands_its_isr():
    cluster = Brokers(1, 2, 3)
    topic = cluster.topic(1, 2, 3)
    answer = cluster.alter(topic, (1, 2))
    assert (answer.error_code, answer.isr, answer.leader_id) == (ErrorCode.none, (1, 2), 1)
    assert (answer.leader_epoch, answer.partition_epoch) == (0, 1)
    answer = cluster.alter(topic, (1, 2, (3, cluster.epochs[3])))
    assert (answer.isr, answer.partition_epoch) == ((1, 2, 3), 2)
    assert cluster.partition(topic).isr == (1, 2, 3)


def test_an_isr_that_stays_as_it_is_costs_no_record():
    cluster = Brokers(1, 2)
    topic = cluster.topic(1, 2)
    before = len(cluster.node.raft.log)
    assert cluster.alter(topic, (1, 2)).partition_epoch == 0
    assert len(cluster.node.raft.log) == before


@pytest.mark.parametrize(
    ("isr", "changes", "error"),
    [
        ((1, 2), {"index": 1}, ErrorCode.unknown_topic_or_partition),
        ((9,), {"leader_epoch": 2, "partition_epoch": 0}, ErrorCode.not_controller),
        ((9,), {"leader_epoch": 0, "partition_epoch": 9}, ErrorCode.not_controller),
        ((9,), {"leader_epoch": 0}, ErrorCode.fenced_leader_epoch),
        ((9,), {"partition_epoch": 0}, ErrorCode.invalid_update_version),
        ((9,), {}, ErrorCode.invalid_request),
        ((1, 1), {}, ErrorCode.invalid_request),
        ((3,), {}, ErrorCode.invalid_request),
        ((), {}, ErrorCode.invalid_request),
        ((2, 3), {"leader_recovery_state": 1}, ErrorCode.invalid_request),
        ((2,), {"leader_recovery_state": 1}, ErrorCode.invalid_request),
        ((2,), {"leader_recovery_state": 2}, ErrorCode.invalid_request),
        ((2, (3, 1)), {}, ErrorCode.ineligible_replica),
        ((2, 1), {}, ErrorCode.ineligible_replica),
        ((2, 3), {}, ErrorCode.none),
    ],
)
def test_the_checks_are_in_kafkas_order(isr, changes, error):
    """Broker 1 led and was fenced: leader 2, leader epoch 1, partition epoch 1."""
    cluster = Brokers(1, 2, 3)
    topic = cluster.topic(1, 2, 3)
    cluster.advance(12_000, 2, 3)
    before = cluster.partition(topic)
    assert (before.leader, before.leader_epoch, before.partition_epoch) == (2, 1, 1)
    request = alter_isr(2, cluster.epochs[2], topic, isr, before, **{"index": 0, **changes})
    if "index" in changes:
        request = alter_isr(2, cluster.epochs[2], topic, isr, before, changes["index"])
    (answer,) = cluster.node.call(request).topics[0].partitions
    assert answer.error_code == error
    assert cluster.partition(topic) == before


def test_only_the_leader_may_alter():
    cluster = Brokers(1, 2)
    topic = cluster.topic(1, 2)
    assert cluster.alter(topic, (1,), broker=2).error_code == ErrorCode.invalid_request


def test_a_stale_epoch_refuses_the_whole_request_and_an_unknown_id_its_topic():
    cluster = Brokers(1)
    topic = cluster.topic(1)
    partition = cluster.partition(topic)
    stale = cluster.node.call(alter_isr(1, cluster.epochs[1] - 1, topic, (1,), partition))
    assert (stale.error_code, stale.topics) == (ErrorCode.stale_broker_epoch, ())
    for unknown in (None, uuid.UUID(int=9)):
        reply = cluster.node.call(alter_isr(1, cluster.epochs[1], unknown, (1,), partition))
        assert reply.topics[0].partitions[0].error_code == ErrorCode.unknown_topic_id


def test_a_replica_that_was_registered_anew_is_not_let_in_by_its_old_epoch():
    """KAFKA-14617: it may have lost what it had when the leader saw it fetch."""
    cluster = Brokers(1, 2)
    topic = cluster.topic(1, 2)
    old = cluster.epochs[2]
    cluster.advance(12_000, 1)
    cluster.join(2, incarnation=1)
    assert cluster.alter(topic, (1, (2, old))).error_code == ErrorCode.ineligible_replica
    assert cluster.alter(topic, (1, (2, cluster.epochs[2]))).error_code == ErrorCode.none


def test_the_preferred_replica_leads_again_after_a_while():
    cluster = Brokers(1, 2)
    topic = cluster.topic(1, 2)
    cluster.advance(12_000, 2)
    cluster.beat(1)
    cluster.alter(topic, (2, 1))
    assert cluster.partition(topic).leader == 2
    cluster.advance(300_000, 1, 2, step_ms=5_000)
    assert cluster.partition(topic).leader == 1


@pytest.mark.parametrize("resource", [(2, "t"), (4, "")])
def test_an_unclean_election_only_where_it_is_configured(resource):
    cluster = Brokers(1, 2)
    topic = cluster.topic(1, 2)
    cluster.alter(topic, (1,))
    cluster.advance(12_000, 2)
    assert (cluster.partition(topic).isr, cluster.partition(topic).leader) == ((1,), -1)
    cluster.node.call(alter("unclean.leader.election.enable", "true", resource=resource))
    cluster.advance(300_000, 2, step_ms=5_000)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.leader, partition.leader_recovery_state) == ((2,), 2, 1)
    answer = cluster.alter(topic, (2,), leader_recovery_state=0)
    assert (answer.error_code, answer.leader_recovery_state) == (ErrorCode.none, 0)


def elr_cluster():
    cluster = Brokers(1, 2, 3, elr=True)
    topic = cluster.topic(1, 2, 3, configs={"min.insync.replicas": "2"})
    return cluster, topic


def test_a_replica_that_leaves_an_isr_below_the_minimum_is_eligible():
    cluster, topic = elr_cluster()
    cluster.alter(topic, (1, 2))
    assert cluster.partition(topic).elr == ()
    cluster.alter(topic, (1,))
    assert (cluster.partition(topic).isr, cluster.partition(topic).elr) == ((1,), (2,))
    cluster.alter(topic, (1, 3))
    assert cluster.partition(topic).elr == ()


def test_an_eligible_replica_leads_when_the_isr_is_empty():
    cluster, topic = elr_cluster()
    cluster.alter(topic, (1, 2))
    cluster.alter(topic, (1,))
    cluster.advance(12_000, 2, 3)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.leader, partition.elr) == ((2,), 2, (1,))
    assert partition.leader_recovery_state == 0


def test_the_last_known_leader_is_elected_only_when_alive_and_no_replica_is_eligible():
    cluster, topic = elr_cluster()
    cluster.alter(topic, (1, 2))
    cluster.alter(topic, (1,))
    cluster.advance(12_000, 3)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.leader, sorted(partition.elr)) == ((), -1, [1, 2])
    assert partition.last_known_elr == (2,)
    # Unclean restarts take both out of the ELR, and fenced they lead nothing (KAFKA-19522).
    cluster.register(1, incarnation=1, previous_broker_epoch=-1)
    cluster.register(2, incarnation=1, previous_broker_epoch=-1)
    partition = cluster.partition(topic)
    assert (partition.elr, partition.leader, partition.last_known_elr) == ((), -1, (2,))
    cluster.beat(1)
    assert cluster.partition(topic).leader == -1
    cluster.beat(2)
    partition = cluster.partition(topic)
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)


@pytest.mark.parametrize("value", ["", "0", "-1", "two", "\u00b2", "9" * 5000])
def test_a_minimum_that_is_no_number_is_the_default(value):
    cluster, topic = elr_cluster()
    # A controller takes any value of brokers: they check before they forward.
    cluster.node.call(alter("min.insync.replicas", value, resource=(4, "")))
    cluster.node.call(alter("min.insync.replicas", None, op=1, resource=(2, "t")))
    cluster.alter(topic, (1,))
    assert cluster.partition(topic).elr == ()


def test_values_are_read_as_brokers_read_them():
    cluster = Brokers(1, 2, 3, elr=True)
    configs = {"min.insync.replicas": " +2", "unclean.leader.election.enable": "TRUE"}
    topic = cluster.topic(1, 2, 3, configs=configs)
    cluster.alter(topic, (1,))
    assert sorted(cluster.partition(topic).elr) == [2, 3]
    assert is_unclean_election_enabled(cluster.node.controller.image.state, "t")


def test_partition_0_says_for_its_topic_how_many_replicas_there_can_be():
    cluster = Brokers(1, 2, 3, elr=True)
    topic = cluster.topic(1, 2, configs={"min.insync.replicas": "3"})
    cluster.alter(topic, [1])
    assert cluster.partition(topic).elr == (2,)
    cluster.alter(topic, [1, 2])
    assert cluster.partition(topic).elr == ()


def test_an_unregistered_broker_stays_eligible_until_it_comes_back_without_its_past():
    cluster, topic = elr_cluster()
    cluster.alter(topic, [1, 2])
    assert cluster.node.call(unregister(2)).error_code == ErrorCode.none
    assert (cluster.partition(topic).isr, cluster.partition(topic).elr) == ((1,), (2,))
    assert cluster.register(2, 1).error_code == ErrorCode.none
    assert (cluster.partition(topic).isr, cluster.partition(topic).elr) == ((1,), ())


def test_another_minimum_clears_the_elr():
    cluster, topic = elr_cluster()
    cluster.alter(topic, (1,))
    assert sorted(cluster.partition(topic).elr) == [2, 3]
    cluster.node.call(alter("min.insync.replicas", "1", resource=(2, "t")))
    assert cluster.partition(topic).elr == ()


MIN_ISR = "min.insync.replicas"
EVERY_BROKER, ONE_BROKER = (4, ""), (4, "1")


@pytest.mark.parametrize(
    ("resource", "op", "value", "error"),
    [
        (EVERY_BROKER, 0, "2", ErrorCode.none),
        (EVERY_BROKER, 1, None, ErrorCode.invalid_config),
        (ONE_BROKER, 0, "2", ErrorCode.invalid_config),
        (ONE_BROKER, 1, None, ErrorCode.invalid_config),
        ((2, "t"), 0, "1", ErrorCode.none),
        ((2, "t"), 1, None, ErrorCode.none),
    ],
)
def test_brokers_agree_on_the_minimum_while_there_is_elr(resource, op, value, error):
    cluster, _ = elr_cluster()
    before = cluster.state.resource_config(ConfigResource(*resource), MIN_ISR)
    answer = cluster.node.call(alter(MIN_ISR, value, op, resource=resource)).responses[0]
    assert answer.error_code == error
    after = cluster.state.resource_config(ConfigResource(*resource), MIN_ISR)
    assert after == (value if error == ErrorCode.none else before)
    assert (answer.error_message is None) == (error == ErrorCode.none)


def test_elr_begins_with_one_minimum_for_all_brokers():
    cluster = Brokers(1, 2)
    for change in (
        alter(MIN_ISR, "3", resource=ONE_BROKER),
        alter(MIN_ISR, "1", resource=(4, "2")),
        alter(MIN_ISR, None, 1, resource=EVERY_BROKER),
    ):
        assert cluster.node.call(change).responses[0].error_code == ErrorCode.none
    assert cluster.node.call(update(ELR, 1)).error_code == ErrorCode.none
    configs = cluster.state.configs
    assert {key: configs.get(key) for key in list(configs.keys())} == {
        (ConfigResource(*EVERY_BROKER), MIN_ISR): "1"
    }


def test_elr_keeps_the_minimum_that_was_chosen():
    cluster = Brokers(1)
    cluster.node.call(alter(MIN_ISR, "2", resource=EVERY_BROKER))
    assert cluster.node.call(update(ELR, 1)).error_code == ErrorCode.none
    assert cluster.state.resource_config(ConfigResource(*EVERY_BROKER), MIN_ISR) == "2"


@pytest.mark.parametrize("previous", ["own", "none", "another"])
def test_only_the_epoch_that_the_controller_has_is_a_clean_shutdown(previous):
    cluster, topic = elr_cluster()
    cluster.alter(topic, (1,))
    assert cluster.partition(topic).elr == (2, 3)
    epoch = {"own": cluster.epochs[2], "none": -1, "another": cluster.epochs[2] - 1}[previous]
    cluster.advance(12_000, 1, 3)
    assert cluster.register(2, 1, previous_broker_epoch=epoch).error_code == ErrorCode.none
    assert cluster.partition(topic).elr == ((2, 3) if previous == "own" else (3,))


def test_a_downgrade_of_elr_says_so_and_clears_it():
    cluster, topic = elr_cluster()
    cluster.alter(topic, (1,))
    call = cluster.node.call
    assert call(update(ELR, 0)).error_code == ErrorCode.invalid_update_version
    assert call(update(ELR, 0, 2, validate_only=True)).error_code == ErrorCode.none
    assert cluster.state.features.get(ELR) == 1
    assert call(update(ELR, 0, 2)).error_code == ErrorCode.none
    assert cluster.state.features.get(ELR) is None
    assert cluster.partition(topic).elr == ()
