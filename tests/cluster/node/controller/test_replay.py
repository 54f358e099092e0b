"""What each record does, and that overlay, image and a replay from scratch always agree."""

import uuid
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.controller.metadata.image import MetadataImage
from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.state import NEXT_PRODUCER_ID, ReplayError, committed_state
from cluster.node.controller.records.kinds import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    ZkMigrationStateRecord,
)
from tests.cluster.node.controller.fakes import Node, alter, creatable, create, delete
from tests.cluster.node.controller.indexes import check_index
from tests.cluster.node.controller.test_topics import grow

A, B = uuid.UUID(int=10), uuid.UUID(int=11)
DIRECTORY = uuid.UUID(int=99)


def content(state):
    """Everything in a state, for comparison."""
    maps = {field.name: getattr(state, field.name) for field in fields(state)}
    return {
        name: {key: entries.get(key) for key in list(entries.keys())}
        for name, entries in maps.items()
    }


def replayed(*records):
    state = committed_state()
    for record in records:
        replay(state, record)
    return state


def partition(index=0, topic_id=A, **changes):
    values = {
        "replicas": (1, 2),
        "isr": (1, 2),
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    return PartitionRecord(partition_id=index, topic_id=topic_id, **{**values, **changes})


def broker(**changes):
    values = {
        "broker_id": 1,
        "incarnation_id": A,
        "broker_epoch": 5,
        "end_points": (),
        "features": (),
    }
    return RegisterBrokerRecord(**{**values, **changes})


topic = TopicRecord(name="a", topic_id=A)


def test_a_partition_change_counts_the_partition_epoch_and_with_a_leader_the_leader_epoch():
    state = replayed(
        topic, partition(), PartitionChangeRecord(partition_id=0, topic_id=A, isr=(1,))
    )
    first = state.partition(A, 0)
    assert (first.isr, first.leader, first.leader_epoch, first.partition_epoch) == ((1,), 1, 0, 1)
    replay(
        state,
        PartitionChangeRecord(
            partition_id=0,
            topic_id=A,
            leader=-1,
            leader_recovery_state=1,
            replicas=(3,),
            directories=(DIRECTORY,),
            eligible_leader_replicas=(2,),
            last_known_elr=(4,),
        ),
    )
    second = state.partition(A, 0)
    assert (second.leader, second.leader_epoch, second.partition_epoch) == (-1, 1, 2)
    assert (second.replicas, second.directories) == ((3,), (DIRECTORY,))
    assert (second.elr, second.last_known_elr, second.leader_recovery_state) == ((2,), (4,), 1)


@pytest.mark.parametrize("name", ["a", ""])
def test_clearing_the_elr_touches_only_partitions_that_have_one(name):
    state = replayed(
        topic,
        partition(0, eligible_leader_replicas=(2,)),
        partition(1),
        TopicRecord(name="b", topic_id=B),
        partition(0, B, last_known_elr=(1,)),
        ClearElrRecord(topic_name=name),
    )
    assert (state.partition(A, 0).elr, state.partition(A, 0).partition_epoch) == ((), 1)
    assert state.partition(A, 1).partition_epoch == 0
    assert state.partition(B, 0).last_known_elr == (() if name == "" else (1,))


def test_features_and_producer_ids_are_kept_and_level_zero_removes_a_feature():
    state = replayed(
        FeatureLevelRecord(name="metadata.version", feature_level=20),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=0),
        ProducerIdsRecord(broker_id=1, next_producer_id=1000),
    )
    assert content(state)["features"] == {"metadata.version": 20}
    assert state.producer_ids.get(NEXT_PRODUCER_ID) == 1000


@pytest.mark.parametrize(
    ("name", "level", "supported"),
    [
        ("metadata.version", 31, "7 to 30"),
        ("metadata.version", 6, "7 to 30"),
        ("transaction.version", 3, "0 to 2"),
        ("group.version", -1, "0 to 1"),
        ("unheard.of", 1, "0 to 0"),
    ],
)
def test_a_level_that_is_not_understood_ends_the_replay(name, level, supported):
    with pytest.raises(ReplayError, match=f"{name} .* level {level}, .* levels {supported}"):
        replayed(FeatureLevelRecord(name=name, feature_level=level))


def test_a_broker_is_registered_changed_fenced_and_unregistered():
    state = replayed(broker(), UnfenceBrokerRecord(id=1, epoch=5))
    assert state.brokers.get(1).fenced is False
    replay(state, FenceBrokerRecord(id=1, epoch=5))
    assert state.brokers.get(1).fenced is True
    replay(
        state,
        BrokerRegistrationChangeRecord(
            broker_id=1,
            broker_epoch=5,
            fenced=-1,
            in_controlled_shutdown=1,
            log_dirs=(DIRECTORY,),
            cordoned_log_dirs=(DIRECTORY,),
        ),
    )
    changed = state.brokers.get(1)
    assert (changed.fenced, changed.in_controlled_shutdown) == (False, True)
    assert changed.log_dirs == changed.cordoned_log_dirs == (DIRECTORY,)
    replay(state, UnregisterBrokerRecord(broker_id=1, broker_epoch=5))
    assert state.brokers.get(1) is None


def test_a_controller_is_registered():
    record = RegisterControllerRecord(controller_id=3, incarnation_id=A, end_points=(), features=())
    assert replayed(record).controllers.get(3) == record


@pytest.mark.parametrize(
    "records",
    [
        (topic, topic),
        (topic, TopicRecord(name="a", topic_id=B)),
        (topic, TopicRecord(name="b", topic_id=A)),
        (partition(),),
        (topic, partition(1)),
        (topic, partition(-1)),
        (PartitionChangeRecord(partition_id=0, topic_id=A),),
        (RemoveTopicRecord(topic_id=A),),
        (ClearElrRecord(topic_name="a"),),
        (ProducerIdsRecord(broker_id=1, next_producer_id=5),) * 2,
        (UnregisterBrokerRecord(broker_id=1, broker_epoch=5),),
        (broker(), FenceBrokerRecord(id=1, epoch=4)),
        (broker(), BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=2)),
        (AbortTransactionRecord(),),
    ],
)
def test_a_record_that_does_not_fit_is_a_replay_error(records):
    state = replayed(*records[:-1])
    before = content(state)
    with pytest.raises(ReplayError):
        replay(state, records[-1])
    assert content(state) == before


NAMES = ("a", "b.c", "b_c", "d")
commands = st.one_of(
    st.builds(
        lambda name, partitions, config: create(creatable(name, partitions, 2, configs=config)),
        st.sampled_from(NAMES),
        st.integers(1, 3),
        st.sampled_from(({}, {"x": "1"}, {"x": "2", "y": "3"})),
    ),
    st.builds(delete, st.sampled_from(NAMES)),
    st.builds(grow, st.sampled_from(NAMES), st.integers(1, 5)),
    st.builds(
        alter,
        st.sampled_from(("x", "y")),
        st.sampled_from(("1", "2", "1,3")),
        st.integers(0, 3),
        st.sampled_from(((4, ""), (4, "1"), (2, "a"), (2, "d"))),
    ),
    st.just("commit one"),
    st.just("commit all"),
    st.just("confirm"),
    st.just("lose, truncated"),
    st.just("lose, committed by the next"),
    st.just("elect"),
)


def from_scratch(batches):
    image = MetadataImage()
    for batch in batches:
        image.apply(batch)
    return image


def do(node, command):
    raft = node.raft
    leads = raft.leader_id == raft.node_id
    if command == "commit one":
        if raft.committed < len(raft.log):
            raft.commit(1)
    elif command == "commit all":
        raft.commit()
    elif command == "confirm":
        raft.confirm(answer=leads)
    elif command == "elect":
        if not leads:
            raft.commit()
            raft.elect()
    elif isinstance(command, str):
        if leads:
            raft.lose(keep_uncommitted=command.endswith("next"))
    else:
        return node.send(command)
    return None


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(commands, max_size=40))
def test_overlay_and_image_always_equal_a_replay_of_the_log(sequence):
    node = Node()
    node.raft.elect()
    requests = []
    for command in sequence:
        replies = do(node, command)
        if replies is not None:
            requests.append(replies)
        raft, controller = node.raft, node.controller
        committed = from_scratch(raft.log[: raft.committed])
        assert content(controller.image.state) == content(committed.state)
        assert controller.image.provenance == committed.provenance
        # The leader sees its whole log, every other node what is committed.
        newest = from_scratch(raft.log) if controller.is_active else committed
        assert content(controller.speculative.state) == content(newest.state)
        check_index(controller.image.state)
        check_index(controller.speculative.state)
    for ack in node.traced("ack"):
        assert ack["offset"] < ack["high_watermark"]
    node.raft.commit()
    node.raft.confirm(answer=node.controller.is_active)
    assert all(len(replies) == 1 for replies in requests), "one answer to each request"


ENTRY = AccessControlEntryRecord(
    id=A,
    resource_type=2,
    resource_name="a",
    pattern_type=3,
    principal="User:p",
    host="*",
    operation=4,
    permission_type=3,
)


def test_access_control_entries_come_and_go_once():
    state = replayed(ENTRY)
    assert state.access_control.get(A) == ENTRY
    with pytest.raises(ReplayError, match="exists already"):
        replay(state, ENTRY)
    replay(state, RemoveAccessControlEntryRecord(id=A))
    assert state.access_control.get(A) is None
    with pytest.raises(ReplayError, match="unknown access control entry"):
        replay(state, RemoveAccessControlEntryRecord(id=A))


def test_a_quota_is_of_an_entity_whatever_the_order_of_its_parts():
    user, client = (
        QuotaEntity(entity_type="user", entity_name="u"),
        QuotaEntity(entity_type="client-id"),
    )
    state = replayed(
        ClientQuotaRecord(entity=(user, client), key="k", value=1.0),
        ClientQuotaRecord(entity=(client, user), key="k", value=2.0),
        ClientQuotaRecord(entity=(user,), key="k", value=3.0),
    )
    assert content(state)["client_quotas"] == {((client, user), "k"): 2.0, ((user,), "k"): 3.0}
    replay(state, ClientQuotaRecord(entity=(user, client), key="k", remove=True))
    replay(state, ClientQuotaRecord(entity=(user, client), key="k", remove=True))
    assert content(state)["client_quotas"] == {((user,), "k"): 3.0}


def test_a_token_is_renewed_and_removed_and_a_migration_changes_nothing():
    def token(expiration):
        return DelegationTokenRecord(
            owner="User:o",
            requester="User:o",
            renewers=(),
            issue_timestamp=1,
            max_timestamp=9,
            expiration_timestamp=expiration,
            token_id="t",
        )

    state = replayed(token(5), token(7), ZkMigrationStateRecord(zk_migration_state=3))
    assert content(state)["delegation_tokens"] == {"t": token(7)}
    replay(state, RemoveDelegationTokenRecord(token_id="t"))
    assert content(state) == content(replayed())


def test_a_controller_is_unregistered_once():
    state = replayed(
        RegisterControllerRecord(controller_id=5, incarnation_id=A, end_points=(), features=())
    )
    replay(state, UnregisterControllerRecord(controller_id=5))
    assert state.controllers.get(5) is None
    with pytest.raises(ReplayError, match="unknown controller 5"):
        replay(state, UnregisterControllerRecord(controller_id=5))
