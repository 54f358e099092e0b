"""What a broker has to do: always what its image says, by changes or as a whole."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.node.broker.lifecycle.publisher import BrokerMetadataPublisher
from cluster.node.controller.metadata.image import MetadataImage
from cluster.node.controller.metadata.image_writer import image_records
from cluster.node.controller.metadata.loader import MetadataLoader
from cluster.node.controller.metadata.registrations import partitions_marked
from cluster.node.controller.records import encode_record
from cluster.node.controller.records.kinds import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from cluster.node.kraft.types import CommittedBatch
from tests.cluster.node.controller.fakes import FakeClock
from tests.cluster.node.controller.test_index import fits, records
from tests.cluster.node.controller.test_loader import snapshot_of

T = uuid.UUID(int=1000)


def registered(broker=1, fenced=True):
    return RegisterBrokerRecord(
        broker_id=broker,
        incarnation_id=uuid.UUID(int=7),
        broker_epoch=5,
        end_points=(),
        features=(),
        rack=None,
        fenced=fenced,
    )


def partition(index=0, replicas=(1, 2), leader=1):
    return PartitionRecord(
        partition_id=index, topic_id=T, replicas=replicas, isr=replicas, leader=leader
    )


def change(index=0, **fields):
    return PartitionChangeRecord(topic_id=T, partition_id=index, **fields)


class Broker:
    """Broker 1, published everything that is committed."""

    def __init__(self, *some):
        self.image = MetadataImage()
        self.loader = MetadataLoader(self.image, FakeClock(), lambda: 0)
        self.changes, self.firsts = [], 0
        self.publisher = BrokerMetadataPublisher(
            1, on_changes=lambda changes, *_: self.changes.append(changes), on_first=self._first
        )
        self.loader.install(self.publisher)
        self.commit(TopicRecord(name="t", topic_id=T), *some)

    def _first(self):
        self.firsts += 1

    def commit(self, *some):
        base = self.image.offset + 1
        values = tuple(encode_record(record) for record in some)
        self.loader.apply(CommittedBatch(base, base + len(some) - 1, 3, 5, 50, values))
        self.loader.maybe_publish()

    @property
    def view(self):
        return set(self.publisher.leaders), set(self.publisher.followers)


def test_a_change_of_the_isr_reaches_its_leader():
    broker = Broker(partition(0))
    broker.commit(change(0, isr=(1,)))
    assert list(broker.changes[1].leaders) == [(T, 0)]
    assert broker.publisher.leaders[T, 0].isr == (1,)


def test_a_replica_that_moves_away_is_deleted():
    broker = Broker(partition(0))
    broker.commit(change(0, replicas=(2, 3), isr=(2, 3), leader=2))
    assert broker.view == (set(), set())
    assert broker.changes[1].deletes == ((T, 0),)


def test_changes_of_others_are_none_of_its_business():
    broker = Broker(partition(0, replicas=(2, 3), leader=2))
    broker.commit(change(0, isr=(2,)))
    assert broker.view == (set(), set())
    assert broker.changes[1].followers == broker.changes[1].leaders == {}


def test_the_first_publication_is_notified_once():
    broker = Broker()
    broker.commit(partition(0))
    assert broker.firsts == 1


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.one_of(records, st.just("load")), max_size=4), max_size=10))
def test_its_view_is_always_what_the_image_holds_of_it(batches):
    broker = Broker()
    for some in batches:
        fitting = []
        for record in some:
            if record == "load":
                held = tuple(image_records(broker.image.state))
                offset = broker.image.offset + 5
                broker.loader.load(
                    snapshot_of(*held, offset=offset), lambda event: event(), lambda: None
                )
            elif not fitting and fits(broker.image.state, record):
                fitting.append(record)
        if fitting:
            broker.commit(*fitting)
        marked = partitions_marked(broker.image.state, 1)
        held = {key: found for key, found in marked if 1 in found.replicas}
        leads = {key for key, found in held.items() if found.leader == 1}
        assert broker.view == (leads, held.keys() - leads)
        assert {**broker.publisher.leaders, **broker.publisher.followers} == held
