"""Requests of brokers, and a controller with brokers whose requests the test makes."""

import uuid

from checkers.invariants.brokers import faults
from cluster.node.controller.metadata.registrations import partitions
from cluster.node.protocol import messages as m
from harness.sim.sights.images import Changes, image_of
from tests.cluster.node.controller.fakes import CLIENT, active, creatable, create

FAR = 10**9
ELR = "eligible.leader.replicas.version"


def listener(name=CLIENT, host="h", port=9092):
    return m.BrokerRegistrationListener(name=name, host=host, port=port, security_protocol=0)


def feature(name="metadata.version", low=1, high=30):
    return m.BrokerRegistrationFeature(
        name=name, min_supported_version=low, max_supported_version=high
    )


ALL = (
    feature(),
    feature(ELR, 0, 1),
    feature("group.version", 0, 1),
    feature("share.version", 0, 1),
    feature("streams.version", 0, 1),
    feature("transaction.version", 0, 2),
)


def register(broker, incarnation=0, **changes):
    values = {
        "broker_id": broker,
        "cluster_id": "fake-cluster",
        "incarnation_id": uuid.UUID(int=10_000 + 100 * broker + incarnation),
        "listeners": (listener(host=f"b{broker}", port=9000 + broker),),
        "features": ALL,
        "rack": None,
        "log_dirs": (uuid.UUID(int=1_000 + broker),),
    }
    return m.BrokerRegistrationRequest(**{**values, **changes})


def heartbeat(broker, epoch, offset=FAR, *, fence=False, shut_down=False, offline_log_dirs=()):
    return m.BrokerHeartbeatRequest(
        broker_id=broker,
        broker_epoch=epoch,
        current_metadata_offset=offset,
        want_fence=fence,
        want_shut_down=shut_down,
        offline_log_dirs=offline_log_dirs,
    )


def assign(broker, epoch, directory, topic_id, *indexes):
    partitions = tuple(
        m.AssignReplicasToDirsRequestPartition(partition_index=index) for index in indexes or (0,)
    )
    topic = m.AssignReplicasToDirsRequestTopic(topic_id=topic_id, partitions=partitions)
    directories = (m.AssignReplicasToDirsRequestDirectory(id_=directory, topics=(topic,)),)
    return m.AssignReplicasToDirsRequest(
        broker_id=broker, broker_epoch=epoch, directories=directories
    )


def unregister(broker):
    return m.UnregisterBrokerRequest(broker_id=broker)


def allocate(broker, epoch):
    return m.AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch)


def alter_isr(broker, epoch, topic_id, isr, partition, index=0, **changes):
    """`isr`: broker ids, or (id, epoch); `partition`: what the leader knows."""
    members = [member if isinstance(member, tuple) else (member, -1) for member in isr]
    values = {
        "partition_index": index,
        "leader_epoch": partition.leader_epoch,
        "new_isr_with_epochs": tuple(
            m.AlterPartitionBrokerState(broker_id=broker, broker_epoch=its)
            for broker, its in members
        ),
        "leader_recovery_state": partition.leader_recovery_state,
        "partition_epoch": partition.partition_epoch,
    }
    item = m.AlterPartitionRequestPartition(**{**values, **changes})
    topic = m.AlterPartitionRequestTopic(topic_id=topic_id, partitions=(item,))
    return m.AlterPartitionRequest(broker_id=broker, broker_epoch=epoch, topics=(topic,))


def update(name, level, upgrade_type=1, validate_only=False):
    key = m.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
    return m.UpdateFeaturesRequest(
        timeout=m.milliseconds(1000), feature_updates=(key,), validate_only=validate_only
    )


def faults_of(state):
    """What is wrong with the partitions of a state, by the rules of `checkers`."""
    found = dict(partitions(state))
    image = image_of(0, state, Changes(found, found, (), frozenset()), 0)
    every = image.affected.values()
    return [fault for each in every for fault in faults(each, has_elr=image.has_elr)]


class Brokers:
    """A controller and its brokers. `epochs`: of every broker that the test registered."""

    def __init__(self, *ids, elr=False, **settings):
        self.node = active(**settings)
        self.epochs = {}
        if not elr:
            self.node.call(update(ELR, 0, upgrade_type=2))
        for broker in ids:
            self.join(broker)

    def register(self, broker, incarnation=0, **changes):
        reply = self.node.call(register(broker, incarnation, **changes))
        if reply.error_code == 0:
            self.epochs[broker] = reply.broker_epoch
        return reply

    def join(self, broker, incarnation=0, **changes):
        """Register and unfence."""
        assert self.register(broker, incarnation, **changes).error_code == 0
        assert self.beat(broker).is_fenced is False

    def beat(self, broker, offset=FAR, **wants):
        return self.node.call(heartbeat(broker, self.epochs[broker], offset, **wants))

    def advance(self, duration_ms, *alive, step_ms=1_000):
        """Let time pass, with heartbeats of some brokers."""
        for _ in range(int(duration_ms // step_ms)):
            for broker in alive:
                self.beat(broker)
            self.node.clock.advance(step_ms)
            self.node.raft.commit()

    def topic(self, *replicas, name="t", configs=None):
        """Create a topic of one partition on these brokers; return its id."""
        assigned = (m.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas),)
        (result,) = self.node.call(create(creatable(name, -1, -1, assigned, configs))).topics
        assert result.error_code == 0, result
        return result.topic_id

    @property
    def state(self):
        return self.node.controller.image.state

    def partition(self, topic_id, index=0):
        return self.state.partition(topic_id, index)

    def alter(self, topic_id, isr, broker=None, **changes):
        partition = self.partition(topic_id)
        broker = partition.leader if broker is None else broker
        request = alter_isr(broker, self.epochs[broker], topic_id, isr, partition, **changes)
        reply = self.node.call(request)
        return reply.topics[0].partitions[0] if reply.topics else reply
