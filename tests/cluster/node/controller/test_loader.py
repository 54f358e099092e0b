"""The loader: when metadata are published, as what, and how a long snapshot is loaded."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.controller.metadata.image import MetadataImage, take_delta
from cluster.node.controller.metadata.image_writer import RECORDS_PER_SLICE, image_records
from cluster.node.controller.metadata.loader import MetadataLoader
from cluster.node.controller.metadata.replay import replay
from cluster.node.controller.metadata.state import ReplayError
from cluster.node.controller.records import encode_record
from cluster.node.controller.records.kinds import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from cluster.node.kraft.types import CommittedBatch
from tests.cluster.node.controller.fakes import FakeClock, snapshot_of
from tests.cluster.node.controller.test_index import fits, records

IDS = tuple(uuid.UUID(int=n) for n in range(1000, 1003))
BEGIN, END = BeginTransactionRecord(), EndTransactionRecord()


def topic(number):
    return TopicRecord(name=f"t{number}", topic_id=uuid.UUID(int=1000 + number))


def config(value, name="k"):
    return ConfigRecord(resource_type=4, resource_name="", name=name, value=value)


class Publisher:
    def __init__(self):
        self.wholes, self.deltas = [], []

    def on_metadata_update(self, delta, image, *, is_whole):
        self.wholes.append(is_whole)
        self.deltas.append(
            {
                key: (delta.configs.before(key), delta.configs.after(key))
                for key in delta.configs.keys()  # noqa: SIM118 - a MapDelta is no dict
            }
        )
        self.offset = image.offset


class Loading:
    """A loader with one publisher; `reported` is the high watermark of the leader."""

    def __init__(self, reported=None):
        self.reported = reported
        self.clock = FakeClock()
        self.loader = MetadataLoader(MetadataImage(), self.clock, lambda: self.reported)
        self.publisher = Publisher()
        self.loader.install(self.publisher)
        self.loaded = 0

    def commit(self, *batches):
        for some in batches:
            base = self.loader.image.offset + 1
            values = tuple(encode_record(record) for record in some)
            self.loader.apply(CommittedBatch(base, base + len(values) - 1, 3, 5, 50, values))
        self.loader.maybe_publish()

    def load(self, snapshot):
        def done():
            self.loaded += 1

        self.loader.load(snapshot, lambda event: event(), done)

    @property
    def wholes(self):
        """Whether each publication was of the whole image."""
        return self.publisher.wholes


def test_nothing_is_published_before_a_leader_reported_how_far_the_quorum_is():
    loading = Loading()
    loading.commit([topic(0)])
    assert loading.wholes == []
    loading.reported = 1
    loading.commit()
    assert loading.wholes == [True]


def test_an_empty_image_is_no_news():
    loading = Loading(reported=0)
    loading.commit()
    assert loading.wholes == []


def test_nothing_is_published_before_the_image_is_that_far():
    loading = Loading(reported=3)
    loading.commit([config("v", "a")])
    loading.commit([config("v", "b")])
    assert (loading.wholes, loading.loader.is_published) == ([], False)
    assert loading.loader.published_offset < loading.loader.image.offset == 1
    loading.commit([config("v", "c")])
    assert loading.loader.published_offset == 2
    assert len(loading.publisher.deltas[0]) == 3, "all at once"
    loading.reported = 10
    loading.commit([config("v")])
    assert loading.wholes == [True, False], "that was asked for once only"


def test_a_publication_has_what_its_batches_changed():
    loading = Loading(reported=0)
    loading.commit([config("a's", "a"), config("b's", "b")])
    loading.commit([config(None, "a")], [config("c's", "c")])
    assert loading.wholes == [True, False]
    assert loading.publisher.offset == 3
    assert set(loading.publisher.deltas[1].values()) == {("a's", None), (None, "c's")}


def test_no_news_is_not_published():
    loading = Loading(reported=0)
    loading.commit([topic(0)])
    loading.commit()
    assert len(loading.wholes) == 1


@pytest.mark.parametrize(("end", "changes"), [(END, 3), (AbortTransactionRecord(reason=None), 1)])
def test_a_transaction_is_published_whole_when_it_ends(end, changes):
    loading = Loading(reported=0)
    loading.commit([config("v")])
    loading.commit([config("w"), BEGIN, config("v", "a")])
    loading.commit([config("v", "b")])
    assert len(loading.wholes) == 1
    loading.commit([end])
    assert len(loading.wholes) == 2
    assert len(loading.publisher.deltas[1]) == changes


def test_a_snapshot_is_published_as_a_whole_image_with_what_it_changed():
    loading = Loading(reported=0)
    loading.commit([config("a's", "a"), config("b's", "b")])
    loading.load(snapshot_of(config("b's", "b"), config("c's", "c")))
    assert loading.wholes == [True, True]
    assert set(loading.publisher.deltas[1].values()) == {("a's", None), (None, "c's")}
    assert (loading.publisher.offset, loading.loaded) == (99, 1)


def test_a_snapshot_below_the_high_watermark_is_not_published_yet():
    loading = Loading(reported=102)
    loading.load(snapshot_of(topic(0)))
    assert loading.wholes == []
    loading.commit([topic(1)], [topic(2)])
    assert loading.wholes == [True]


@pytest.mark.slow
def test_a_long_snapshot_is_loaded_in_turns_and_seen_only_when_it_is_whole():
    loading = Loading(reported=0)
    loading.commit([config("old")])
    topics = [topic(n) for n in range(3 * RECORDS_PER_SLICE)]
    loading.load(snapshot_of(*topics))
    turns = 0
    while not loading.loaded:
        assert list(loading.loader.image.state.topics.keys()) == []
        assert loading.loader.image.offset == 0
        (timer,) = loading.clock.timers
        loading.clock.timers = []
        timer.callback()
        turns += 1
    assert turns == 3
    state = loading.loader.image.state
    assert (len(state.topics), len(state.configs)) == (len(topics), 0)


def test_a_record_that_does_not_fit_stops_a_load_and_changes_nothing():
    loading = Loading(reported=0)
    loading.commit([topic(7)])
    with pytest.raises(ReplayError, match="metadata record 1 of the snapshot"):
        loading.load(snapshot_of(topic(0), RemoveTopicRecord(topic_id=IDS[1])))
    assert list(loading.loader.image.state.topic_names.keys()) == ["t7"]
    assert loading.loaded == 0


def test_a_publisher_cannot_come_too_late():
    loading = Loading(reported=0)
    loading.commit([topic(0)])
    with pytest.raises(AssertionError, match="misses the first image"):
        loading.loader.install(Publisher())


MAPS = ("partitions", "configs", "brokers")


def copied(state):
    return {
        name: {key: getattr(state, name).get(key) for key in list(getattr(state, name).keys())}
        for name in MAPS
    }


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(records, st.sampled_from(("take", "load"))), max_size=25))
def test_a_delta_is_the_difference_of_the_states_before_and_after(steps):
    image = MetadataImage()
    before = {name: {} for name in MAPS}
    for step in (*steps, "take"):
        if step == "take":
            after, delta = copied(image.state), take_delta(image.state)
            for name in MAPS:
                part = getattr(delta, name)
                found = {key: (part.before(key), part.after(key)) for key in part.keys()}  # noqa: SIM118
                both = {**before[name], **after[name]}
                assert found == {
                    key: (before[name].get(key), after[name].get(key))
                    for key in both
                    if before[name].get(key) != after[name].get(key)
                }, name
            before = after
        elif step == "load":
            some = list(image_records(image.state))[: -1 if len(image.state.topics) % 2 else None]
            kept = MetadataImage()
            for record in some:
                if fits(kept.state, record):
                    replay(kept.state, record)
            held = tuple(image_records(kept.state))
            image.load(snapshot_of(*held, offset=image.offset + 5))
        elif fits(image.state, step):
            replay(image.state, step)
