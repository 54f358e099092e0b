"""An image becomes a snapshot and a snapshot an image: when, and what must survive it."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.controller.metadata.image import MetadataImage, SpeculativeState
from cluster.node.controller.metadata.image_writer import frozen_copy, image_records, read_image
from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.state import ReplayError, committed_state
from cluster.node.controller.records import encode_record
from cluster.node.controller.records.kinds import (
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RecordEndpoint,
    RecordFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
)
from cluster.node.kraft.types import CommittedBatch, IllegalStateError
from cluster.node.log.types import OffsetAndEpoch
from tests.cluster.node.controller.fakes import Node, active, create, delete, snapshot_of
from tests.cluster.node.controller.test_index import IDS as TOPIC_IDS
from tests.cluster.node.controller.test_index import records as of_partitions
from tests.cluster.node.controller.test_replay import content

IDS = [uuid.UUID(int=n) for n in range(1, 5)]
QUOTA_PARTS = [QuotaEntity(entity_type="user", entity_name="u"), QuotaEntity(entity_type="ip")]


def some(kind, **fields):
    """Records of a kind; a field that is no strategy is the same in all of them."""
    made = {
        name: value if isinstance(value, st.SearchStrategy) else st.just(value)
        for name, value in fields.items()
    }
    return st.builds(kind, **made)


small, brokers, ids = st.integers(0, 3), st.integers(1, 3), st.sampled_from(IDS)
users, tokens = brokers.map("u{}".format), brokers.map("t{}".format)
ends = st.tuples(some(RecordEndpoint, name="CLIENT", host="h", port=st.integers(1, 9)))
features = st.tuples(
    some(RecordFeature, name="f", min_supported_version=0, max_supported_version=small)
)
records = st.one_of(
    of_partitions,
    of_partitions,
    some(
        UserScramCredentialRecord,
        name=users,
        mechanism=st.integers(1, 2),
        salt=b"s",
        stored_key=b"k",
        server_key=b"v",
        iterations=st.integers(4096, 4099),
    ),
    some(RemoveUserScramCredentialRecord, name=users, mechanism=1),
    some(
        DelegationTokenRecord,
        owner="User:o",
        requester="User:r",
        renewers=("User:a",),
        issue_timestamp=1,
        max_timestamp=9,
        expiration_timestamp=small,
        token_id=tokens,
    ),
    some(RemoveDelegationTokenRecord, token_id=tokens),
    some(
        AccessControlEntryRecord,
        id=ids,
        resource_type=2,
        resource_name="a",
        pattern_type=3,
        principal="User:p",
        host="*",
        operation=small,
        permission_type=3,
    ),
    some(RemoveAccessControlEntryRecord, id=ids),
    some(
        ClientQuotaRecord,
        entity=st.permutations(QUOTA_PARTS).map(tuple),
        key="producer_byte_rate",
        value=st.floats(0, 9),
        remove=st.booleans(),
    ),
    some(UnregisterControllerRecord, controller_id=brokers),
    some(
        ConfigRecord,
        resource_type=st.sampled_from([2, 4]),
        resource_name=small.map("t{}".format),
        name=st.sampled_from("abc"),
        value=st.none() | st.text(max_size=3),
    ),
    some(
        FeatureLevelRecord,
        name=st.sampled_from(["group.version", "transaction.version"]),
        feature_level=st.integers(0, 1),
    ),
    some(ProducerIdsRecord, broker_id=brokers, broker_epoch=1, next_producer_id=st.integers(0, 99)),
    some(
        RegisterBrokerRecord,
        broker_id=brokers,
        incarnation_id=ids,
        broker_epoch=small,
        end_points=ends,
        features=features,
        rack=st.none() | st.just("r"),
        fenced=st.booleans(),
        in_controlled_shutdown=st.booleans(),
        log_dirs=small.map(lambda count: tuple(IDS[:count])),
        cordoned_log_dirs=st.none() | st.just((IDS[0],)),
    ),
    some(
        BrokerRegistrationChangeRecord,
        broker_id=brokers,
        broker_epoch=small,
        fenced=st.integers(-1, 1),
    ),
    some(UnregisterBrokerRecord, broker_id=brokers, broker_epoch=small),
    some(
        RegisterControllerRecord,
        controller_id=brokers,
        incarnation_id=ids,
        end_points=ends,
        features=features,
    ),
)
"""Any record of one of few topics, brokers and resources; whether it fits is not asked."""
BEGUN = [
    record
    for number, topic in enumerate(TOPIC_IDS)
    for record in (
        TopicRecord(name=f"t{number}", topic_id=topic),
        PartitionRecord(partition_id=0, topic_id=topic, replicas=(1, 2), isr=(1, 2)),
    )
]
"""What most records of partitions need."""


def ordered(state):
    """Everything in a state, in the order of its maps, where that has a meaning."""
    maps = content(state)
    for name in ("configs", "features", "partitions"):  # partitions stand by topic in a snapshot
        maps[name] = dict(sorted(maps[name].items(), key=repr))
    return {name: list(entries.items()) for name, entries in maps.items()}


def fitting(state, drawn):
    """Replay what fits and return it."""
    kept = []
    for record in drawn:
        try:
            replay(state, record)
        except ReplayError:
            continue
        kept.append(record)
    return kept


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(before=st.lists(records, max_size=40), after=st.lists(records, max_size=15))
def test_a_snapshot_and_the_rest_of_the_log_are_a_replay_from_scratch(before, after):
    scratch = committed_state()
    fitting(scratch, BEGUN + before)
    values = [encode_record(record) for record in image_records(frozen_copy(scratch))]
    restored = read_image(values)
    assert ordered(restored) == ordered(scratch)
    assert [encode_record(record) for record in image_records(restored)] == values
    for record in fitting(scratch, after):
        replay(restored, record)
    assert ordered(restored) == ordered(scratch)


def test_a_frozen_copy_does_not_see_later_records():
    state = committed_state()
    replay(state, TopicRecord(name="a", topic_id=IDS[0]))
    frozen = frozen_copy(state)
    replay(state, RemoveTopicRecord(topic_id=IDS[0]))
    assert [record.name for record in image_records(frozen)] == ["a"]


def test_what_the_snapshot_lacks_is_gone_after_the_load():
    image = MetadataImage()
    gone = [
        TopicRecord(name="gone", topic_id=IDS[0]),
        ConfigRecord(resource_type=4, resource_name="", name="gone", value="v"),
    ]
    image.apply(CommittedBatch(0, 1, 1, 5, 10, tuple(encode_record(record) for record in gone)))
    speculative = SpeculativeState(image)
    image.load(snapshot_of(TopicRecord(name="kept", topic_id=IDS[1])))
    for state in (image.state, speculative.state):
        assert list(state.topic_names.keys()) == ["kept"]
        assert list(state.configs.keys()) == []
        assert state.topic_by_name("gone") is None
    assert image.offset == 99
    assert image.provenance.last_contained_epoch == 3
    assert image.provenance.last_contained_log_time_ms == 77


def test_an_image_never_goes_back_to_an_older_snapshot():
    image = MetadataImage()
    image.load(snapshot_of(offset=100))
    with pytest.raises(ReplayError, match="a snapshot up to 89 after 99"):
        image.load(snapshot_of(offset=90))


def test_a_snapshot_with_a_record_that_does_not_fit_changes_nothing():
    image = MetadataImage()
    image.load(snapshot_of(TopicRecord(name="a", topic_id=IDS[0])))
    before = content(image.state)
    with pytest.raises(ReplayError, match="metadata record 0"):
        image.load(snapshot_of(RemoveTopicRecord(topic_id=IDS[1]), offset=200))
    assert content(image.state) == before


def test_an_active_controller_never_loads_a_snapshot():
    node = active()
    with pytest.raises(IllegalStateError, match="may append"):
        node.controller.handle_load_snapshot(snapshot_of(offset=10_000), lambda: None)


def test_after_a_load_the_next_batch_follows():
    node = Node()
    snapshot = snapshot_of(TopicRecord(name="a", topic_id=IDS[0]))
    node.controller.handle_load_snapshot(snapshot, lambda: None)
    removal = encode_record(RemoveTopicRecord(topic_id=IDS[0]))
    node.controller.handle_commit([CommittedBatch(100, 100, 3, 5, 10, (removal,))])
    assert node.controller.image.state.topic_by_name("a") is None
    assert node.traced("load-snapshot") == [{"offset": 100, "epoch": 3}]


# -- when -----------------------------------------------------------------------------------------


def test_no_snapshot_is_made_before_the_image_has_caught_up_with_the_quorum():
    node = Node(max_record_bytes_between_snapshots=1)
    for number in range(2):
        topic = encode_record(TopicRecord(name=f"t{number}", topic_id=IDS[number]))
        node.raft.log.append(CommittedBatch(number, number, 1, 5, 100, (topic,)))
    node.raft.committed = 2  # so the leader says; this node is given one batch after the other
    node.controller.handle_commit(node.raft.log[:1])
    assert node.raft.snapshots == []
    node.controller.handle_commit(node.raft.log[1:])
    assert [made.id.offset for made in node.raft.snapshots] == [2]


def test_a_snapshot_is_made_when_enough_bytes_have_come():
    node = active(max_record_bytes_between_snapshots=500)
    made = len(node.raft.snapshots)
    for number in range(4):  # each batch counts 100 bytes
        node.call(create(f"t{number}"))
    node.clock.advance(1)
    assert len(node.raft.snapshots) - made <= 1
    node.call(create("t5"))
    node.clock.advance(1)
    newest = node.raft.snapshots[-1]
    assert newest.frozen
    state = read_image(newest.values)
    assert newest.id.epoch == node.raft.epoch
    assert set(state.topic_names.keys()) <= set(node.controller.image.state.topic_names.keys())


def test_no_snapshot_is_made_before_its_time_and_one_after_it():
    node = active(max_snapshot_interval_ms=1_000)
    node.clock.advance(900)
    node.call(create("early"))
    assert node.raft.snapshots == []
    node.clock.advance(200)
    node.call(create("late"))
    node.clock.advance(1)
    [made] = node.raft.snapshots
    assert made.frozen
    assert list(read_image(made.values).topic_names.keys()) == ["early", "late"]
    node.call(create("later"))
    node.clock.advance(1)
    assert len(node.raft.snapshots) == 1


def test_time_alone_makes_no_snapshot_when_that_is_turned_off():
    node = active(max_snapshot_interval_ms=0)
    node.clock.advance(1e9)
    node.call(create("a"))
    assert node.raft.snapshots == []


def test_a_snapshot_holds_committed_records_only():
    node = active(max_record_bytes_between_snapshots=1)
    node.call(create("committed"))
    node.clock.advance(1)
    node.send(create("awaited"))
    node.send(delete("committed"))
    node.raft.commit(1)  # the creation, not the removal
    node.clock.advance(1)
    newest = node.raft.snapshots[-1]
    assert newest.id.offset == node.raft.log[node.raft.committed - 1].last_offset + 1
    assert list(read_image(newest.values).topic_names.keys()) == ["committed", "awaited"]


def test_a_snapshot_that_is_being_written_does_not_see_what_is_committed_meanwhile():
    node = active(max_record_bytes_between_snapshots=1)
    node.call(create("a"))
    [*_, first] = node.raft.snapshots
    assert not first.frozen, "its second slice has not had its turn"
    node.call(delete("a"))
    assert node.raft.snapshots[-1] is first, "one at a time"
    node.clock.advance(1)
    assert first.frozen


def test_no_snapshot_is_made_within_a_metadata_transaction():
    node = Node(max_record_bytes_between_snapshots=1)
    begin = encode_record(BeginTransactionRecord(name="t"))
    topic = encode_record(TopicRecord(name="a", topic_id=IDS[0]))
    end = encode_record(EndTransactionRecord())
    node.raft.log.append(CommittedBatch(0, 1, 1, 5, 100, (begin, topic)))
    node.raft.commit()
    assert node.raft.snapshots == []
    node.raft.log.append(CommittedBatch(2, 2, 1, 5, 100, (end,)))
    node.raft.commit()
    node.clock.advance(1)
    [made] = node.raft.snapshots
    assert made.id == OffsetAndEpoch(3, 1)
    assert list(read_image(made.values).topic_names.keys()) == ["a"]
