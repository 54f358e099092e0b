"""The index of partitions by broker: always what a search through all of them would find."""

import copy
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.controller.metadata.image import MetadataImage, SpeculativeState
from cluster.node.controller.metadata.image_writer import frozen_copy, image_records, read_image
from cluster.node.controller.metadata.registrations import partitions
from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.state import (
    IMBALANCED,
    LEADERLESS,
    REASSIGNING,
    PartitionRegistration,
    ReplayError,
    partition_marks,
)
from cluster.node.controller.partitions.leadership import broker_fenced, broker_unfenced
from cluster.node.controller.records import encode_record
from cluster.node.controller.records.kinds import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.cluster.node.controller.brokers import Brokers
from tests.cluster.node.controller.fakes import snapshot_of
from tests.cluster.node.controller.indexes import check_index

IDS = tuple(uuid.UUID(int=n) for n in range(1000, 1003))
some_brokers = st.lists(st.integers(1, 4), max_size=3, unique=True).map(tuple)
maybe_brokers = st.none() | some_brokers
topic_ids = st.sampled_from(IDS)
indexes = st.integers(0, 2)

records = st.one_of(
    st.builds(lambda n: TopicRecord(name=f"t{n}", topic_id=IDS[n]), st.integers(0, 2)),
    st.builds(
        PartitionRecord,
        partition_id=indexes,
        topic_id=topic_ids,
        replicas=some_brokers,
        isr=some_brokers,
        removing_replicas=some_brokers,
        adding_replicas=some_brokers,
        leader=st.integers(-1, 4),
        leader_recovery_state=st.integers(0, 1),
        eligible_leader_replicas=maybe_brokers,
        last_known_elr=maybe_brokers,
        directories=st.just(IDS),
        leader_epoch=indexes,
        partition_epoch=indexes,
    ),
    st.builds(
        PartitionChangeRecord,
        partition_id=indexes,
        topic_id=topic_ids,
        isr=maybe_brokers,
        leader=st.integers(-2, 4),
        replicas=maybe_brokers,
        removing_replicas=maybe_brokers,
        adding_replicas=maybe_brokers,
        eligible_leader_replicas=maybe_brokers,
    ),
    st.builds(RemoveTopicRecord, topic_id=topic_ids),
    st.just(ClearElrRecord(topic_name="")),
)


def fits(state, record):
    """Replay into a copy first: what does not fit must not touch the state under test."""
    try:
        replay(copy.deepcopy(state), record)
    except ReplayError:
        return False
    return True


STEPS = st.one_of(records, st.sampled_from(("commit", "revert", "load")))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_it_is_what_a_search_finds_whatever_is_replayed_committed_reverted_or_loaded(steps):
    image = MetadataImage()
    newest = SpeculativeState(image)
    offset, waiting = -1, []
    for step in steps:
        if step == "commit":
            for record in waiting:
                replay(image.state, record)
            newest.drop_through(offset)
            waiting = []
        elif step in {"revert", "load"}:
            newest.revert()
            offset, waiting = -1, []
            if step == "load":
                kept = image_records(frozen_copy(image.state))
                image.load(snapshot_of(*kept, offset=image.offset + 5))
        elif fits(newest.state, step):
            offset += 1
            newest.replay([step], offset)
            waiting.append(step)
        check_index(image.state, newest.state)
        check_index(newest.state, image.state)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(records, max_size=20))
def test_a_copy_finds_what_its_original_finds(sequence):
    image = MetadataImage()
    for record in sequence:
        if fits(image.state, record):
            replay(image.state, record)
    check_index(frozen_copy(image.state))
    check_index(read_image(encode_record(record) for record in image_records(image.state)))


def partition(**fields):
    return PartitionRegistration(
        **{
            "replicas": (1, 2),
            "isr": (1, 2),
            "leader": 1,
            "leader_epoch": 0,
            "partition_epoch": 0,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("indexed", "marks"),
    [
        (partition(), {1, 2}),
        (partition(isr=(1,), elr=(3,)), {1, 2, 3}),
        (partition(isr=(4,)), {1, 2, 4}),
        (partition(leader=2), {1, 2, IMBALANCED}),
        (partition(leader=-1), {1, 2, LEADERLESS, IMBALANCED}),
        (partition(adding_replicas=(2,)), {1, 2, REASSIGNING}),
        (partition(removing_replicas=(2,)), {1, 2, REASSIGNING}),
    ],
)
def test_a_partition_is_found_by_its_brokers_and_by_what_is_wrong_with_it(indexed, marks):
    found = partition_marks(indexed)
    assert len(found) == len(set(found))
    assert set(found) == marks


class Watched:
    """A state's partitions, which count walks through all of them."""

    def __init__(self, inner):
        self._inner = inner
        self.got = set()

    def get(self, key):
        self.got.add(key)
        return self._inner.get(key)

    def keys(self):
        raise AssertionError("a walk through all partitions")

    def keys_with(self, mark):
        return self._inner.keys_with(mark)


def test_a_broker_that_comes_or_goes_costs_a_look_at_its_own_partitions_only():
    cluster = Brokers(1, 2, 3)
    own = cluster.topic(1, 2, name="own")
    others = cluster.topic(2, 3, name="others")
    state = cluster.state
    watched = Watched(state.partitions)
    seen = type(state)(**{**fields_of(state), "partitions": watched})
    fenced = list(broker_fenced(seen, state.brokers.get(1)))
    assert [record.topic_id for record in fenced[:-1]] == [own]
    assert watched.got == {(own, 0)}
    assert len(list(broker_unfenced(seen, state.brokers.get(1)))) == 1
    assert (others, 0) in {key for key, _ in partitions(state)}


def fields_of(state):
    return {name: getattr(state, name) for name in type(state).__dataclass_fields__}
