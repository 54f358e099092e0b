"""Random histories of brokers: after every event the controller's state is valid.

The rules are those of `checkers`, after Vanlightly's KIP-966 specification.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cluster.node.controller.metadata.image import MetadataImage
from cluster.node.controller.metadata.registrations import is_active, partitions
from cluster.node.controller.metadata.state import NEXT_PRODUCER_ID
from cluster.node.errors import ErrorCode
from tests.cluster.node.controller.brokers import (
    ELR,
    Brokers,
    allocate,
    alter_isr,
    faults_of,
    unregister,
    update,
)
from tests.cluster.node.controller.fakes import alter
from tests.cluster.node.controller.indexes import check_index
from tests.cluster.node.controller.test_replay import content

IDS = (1, 2, 3)
brokers = st.sampled_from(IDS)


class Lives(RuleBasedStateMachine):
    @initialize(
        elr=st.booleans(),
        unclean=st.booleans(),
        minimum=st.sampled_from(["1", "2", "3"]),
        replicas=st.lists(st.permutations(IDS), min_size=1, max_size=2),
    )
    def begin(self, elr, unclean, minimum, replicas):
        self.cluster = Brokers(*IDS, elr=elr)
        configs = {"min.insync.replicas": minimum}
        if unclean:
            configs["unclean.leader.election.enable"] = "true"
        self.topics = [
            self.cluster.topic(*some, name=f"t{index}", configs=configs)
            for index, some in enumerate(replicas)
        ]
        self.incarnations = dict.fromkeys(IDS, 0)
        self.epochs_seen = dict(self.cluster.epochs)
        self.highest = {}
        self.next_producer_id = 0

    @rule(broker=brokers, clean=st.booleans())
    def restart(self, broker, clean):
        self.incarnations[broker] += 1
        previous = self.cluster.epochs[broker] if clean else -1
        reply = self.cluster.register(
            broker, self.incarnations[broker], previous_broker_epoch=previous
        )
        if reply.error_code == ErrorCode.none:
            assert reply.broker_epoch > self.epochs_seen[broker]
            self.epochs_seen[broker] = reply.broker_epoch
        else:
            assert reply.error_code == ErrorCode.duplicate_broker_registration

    @rule(broker=brokers, behind=st.booleans(), fence=st.booleans(), shut_down=st.booleans())
    def beat(self, broker, behind, fence, shut_down):
        offset = 0 if behind else self.cluster.node.raft.end_offset
        self.cluster.beat(broker, offset, fence=fence, shut_down=shut_down)

    @rule(broker=brokers)
    def beat_well(self, broker):
        self.cluster.beat(broker)

    @rule(broker=brokers)
    def leave(self, broker):
        reply = self.cluster.node.call(unregister(broker))
        assert reply.error_code in (ErrorCode.none, ErrorCode.broker_id_not_registered)

    @rule(alive=st.sets(brokers), seconds=st.sampled_from([1, 4, 12]))
    def wait(self, alive, seconds):
        self.cluster.advance(seconds * 1_000, *sorted(alive), step_ms=min(seconds, 4) * 1_000)

    @rule()
    def elections(self):
        node = self.cluster.node
        for task in node.controller.periodic_tasks._tasks[1:]:
            node.controller._append_internal_event(task.generate, lambda _count: None)
        node.raft.commit()

    @rule(
        which=st.integers(0, 1),
        isr=st.lists(st.tuples(brokers, st.booleans()), max_size=3),
        recovered=st.booleans(),
    )
    def alter(self, which, isr, recovered):
        topic = self.topics[which % len(self.topics)]
        partition = self.cluster.partition(topic)
        leader = partition.leader
        if leader == -1:
            return
        members = [(broker, self.cluster.epochs[broker] if exact else -1) for broker, exact in isr]
        if leader not in [broker for broker, _ in isr]:
            members.append((leader, -1))
        state = 0 if recovered else partition.leader_recovery_state
        epoch = self.cluster.state.brokers.get(leader).epoch
        request = alter_isr(leader, epoch, topic, members, partition, leader_recovery_state=state)
        (answer,) = self.cluster.node.call(request).topics[0].partitions
        if answer.error_code == ErrorCode.none:
            assert answer.partition_epoch == self.cluster.partition(topic).partition_epoch
            assert set(answer.isr) == {broker for broker, _ in members}

    @rule(minimum=st.sampled_from(["1", "2", "3"]))
    def another_minimum(self, minimum):
        self.cluster.node.call(alter("min.insync.replicas", minimum, resource=(2, "t0")))

    @rule(on=st.booleans())
    def switch_elr(self, on):
        everywhere = [is_active(self.cluster.state, broker) for broker in IDS]
        if on and not all(everywhere):
            return  # a last member that is dead stays in its ISR until something changes
        self.cluster.node.call(update(ELR, int(on), 1 if on else 2))

    @rule(broker=brokers)
    def allocate(self, broker):
        reply = self.cluster.node.call(allocate(broker, self.cluster.epochs[broker]))
        if reply.error_code == ErrorCode.none:
            assert reply.producer_id_start == self.next_producer_id
            self.next_producer_id += 1_000
        assert (self.cluster.state.producer_ids.get(NEXT_PRODUCER_ID) or 0) == self.next_producer_id

    @rule(keep=st.booleans())
    def fail_over(self, keep):
        """Another node leads for a while, with or without what was appended last."""
        node = self.cluster.node
        node.send(allocate(1, self.cluster.epochs[1]))
        appended = len(node.raft.log) > node.raft.committed
        node.raft.lose(keep_uncommitted=keep)
        node.raft.commit()
        self.next_producer_id += 1_000 if keep and appended else 0
        node.raft.elect()
        node.raft.commit()

    @invariant()
    def the_state_is_valid(self):
        if not hasattr(self, "cluster"):
            return
        node = self.cluster.node
        node.raft.commit()
        state = self.cluster.state
        assert faults_of(state) == []
        check_index(state)
        assert node.controller.speculative.is_empty
        for key, partition in partitions(state):
            if state.features.get(ELR):
                assert all(is_active(state, member) for member in partition.isr), partition
            epochs = (partition.leader_epoch, partition.partition_epoch)
            before = self.highest.get(key, epochs)
            assert epochs[0] >= before[0]
            assert epochs[1] >= before[1]
            if epochs[0] > before[0]:
                assert epochs[1] > before[1]
            self.highest[key] = epochs

    def teardown(self):
        if not hasattr(self, "cluster"):
            return
        again = MetadataImage()
        for batch in self.cluster.node.raft.log:
            again.apply(batch)
        assert content(again.state) == content(self.cluster.state)


Lives.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_lives_of_brokers_keep_the_state_valid = pytest.mark.filterwarnings("error")(Lives.TestCase)
