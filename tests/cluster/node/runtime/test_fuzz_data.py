"""Mutated requests for a topic that is there: they reach its log, which must stay a log.

What `entities` draws names topics that nobody has, and is answered as such. Here most of a request
is aimed: names, ids and partitions are the topic's, offsets and epochs near those of its log, and
records are batches, or nearly.
"""

import dataclasses
import datetime as dt
import struct
import uuid
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.node.controller.metadata.registrations import registered_brokers
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import parse_header
from cluster.node.protocol.apis import LISTENER_APIS, ApiKey, ListenerType, request_class
from cluster.node.protocol.data_messages import ProducePartition, ProduceRequest
from cluster.node.wire.schema import element, is_array
from tests.cluster.node.controller.fakes import create
from tests.cluster.node.log.data_helpers import batch, contents
from tests.cluster.node.protocol.entities import entities
from tests.cluster.node.runtime.live_node import LiveNode
from tests.cluster.node.runtime.mutated_frames import mutations
from tests.kio_bytes import request_frame

TOPIC = "t"
REQUESTS = [
    (key, version)
    for key in (
        ApiKey.PRODUCE,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        *10 * (ApiKey.DELETE_RECORDS,),  # few of them name an offset that is there
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.INIT_PRODUCER_ID,
    )
    for versions in [LISTENER_APIS[ListenerType.BROKER][key]]
    for version in range(versions.lowest, versions.highest + 1)
]
NAMES = {"name", "topic"}
PARTITIONS = {"index", "partition", "partition_index", "partition_indexes"}
SIZES = {"max_bytes", "partition_max_bytes"}
SMALL = {"acks": (-1, 0, 1), "replica_id": (-1, 1), "session_id": (0,), "min_bytes": (0, 1)}
NEAR = (-3, -2, -1, 0, 1, 7, 40, 10**6)
"""Offsets and timestamps: those with a meaning of their own, and some of the log's."""


class LiveTopic:
    """A node with a topic of one partition."""

    def __init__(self, folder) -> None:
        self.live = LiveNode(folder)
        self.live.wait_until(self._has_a_broker)
        created = self.live.answer(ListenerType.CONTROLLER, create(TOPIC)).topics[0]
        assert created.error_code is ErrorCode.none, created
        self.id: uuid.UUID = created.topic_id
        self.live.wait_until(lambda: not isinstance(self._hosted(), ErrorCode))

    def _has_a_broker(self) -> bool:
        brokers = registered_brokers(self.live.node.controller.image.state)
        return any(not broker.fenced for broker in brokers)

    def _hosted(self):
        return self.live.node.replicas.find_replica(TOPIC, 0)

    @property
    def log(self):
        return self._hosted().log


@pytest.fixture(scope="module")
def topic(tmp_path_factory):
    there = LiveTopic(tmp_path_factory.mktemp("fuzz"))
    yield there
    there.live.close()


@st.composite
def records(draw) -> bytes:
    """Draw a batch, now and then a damaged one."""
    values = [b"v" * size for size in draw(st.lists(st.integers(0, 50), min_size=1, max_size=3))]
    producer = draw(
        st.just((-1, -1, -1)) | st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 5))
    )
    made = batch(*values, producer=producer, codec=draw(st.sampled_from([0, 0, 1])))
    return draw(mutations(made, most=1)) if draw(st.integers(0, 3)) == 0 else made


def aimed(draw, entity, topic_id):
    """Replace most of what names nothing that is there."""
    changes = {}
    for field in dataclasses.fields(entity):
        value, inner = getattr(entity, field.name), element(field.type)
        if dataclasses.is_dataclass(inner):
            if is_array(field.type):
                several = value or (draw(entities(inner)),)
                changes[field.name] = tuple(aimed(draw, each, topic_id) for each in several)
            elif value is not None:
                changes[field.name] = aimed(draw, value, topic_id)
        elif draw(st.integers(0, 15)):
            found = near(draw, field, value, topic_id)
            is_one_of_many = is_array(field.type) and found is not value
            changes[field.name] = (found,) if is_one_of_many else found
    return dataclasses.replace(entity, **changes)


def near(draw, field, value, topic_id):
    """Draw a value for one field that means something here."""
    name, kind = field.name, field.metadata["kafka_type"]
    if kind == "uuid":
        return topic_id
    if kind == "records":
        return draw(records())
    if kind.startswith("timedelta"):
        return dt.timedelta(milliseconds=draw(st.integers(0, 20)))
    if name == "transactional_id":
        return None
    if name in NAMES:
        return TOPIC
    if name in PARTITIONS:
        return 0
    if name in SIZES:
        return 1 << 20
    if name in SMALL:
        return draw(st.sampled_from(SMALL[name]))
    if name.endswith("epoch"):
        return draw(st.sampled_from((-1, 0)))
    if name.endswith("offset") or name == "timestamp":
        return draw(st.sampled_from(NEAR))
    return value


@st.composite
def requests(draw, topic_id) -> bytes:
    key, version = draw(st.sampled_from(REQUESTS))
    entity = aimed(draw, draw(entities(request_class(key, version))), topic_id)
    body = draw(mutations(request_frame(entity, 1, "fuzz"), most=draw(st.sampled_from([0, 0, 1]))))
    return struct.pack(">i", len(body)) + body


@pytest.mark.slow
@pytest.mark.parametrize("requests_fed", [300, pytest.param(5_000, marks=pytest.mark.nightly)])
def test_no_request_makes_a_log_anything_else(topic, requests_fed):
    @settings(
        max_examples=requests_fed,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(requests(topic.id))
    def check(frame):
        topic.live.feed(ListenerType.BROKER, frame)

    check()
    log = topic.log
    last = ProduceRequest(-1, 5_000.0, (ProducePartition(TOPIC, 0, batch(b"last")),))
    appended = topic.live.answer(ListenerType.BROKER, last).partitions[0]
    assert (appended.error, appended.base_offset) == (ErrorCode.none, log.end_offset - 1)
    assert log.end_offset > requests_fed / 20, "hardly any batch was appended"
    assert log.start_offset > 0, "nothing was deleted"
    assert not topic.live.node.replicas.logs.has_offline
    assert topic.live.server.buffered_bytes == 0
    headers = [parse_header(each) for each in contents(log)]
    assert headers[-1].next_offset == log.end_offset
    assert all(one.next_offset == other.base_offset for one, other in pairwise(headers))
