import dataclasses
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as DeleteTopicsV5
from kio.schema.fetch.v12 import request as fetch_v12
from kio.schema.metadata.v0.request import MetadataRequest as MetadataV0
from kio.schema.metadata.v9.request import MetadataRequest as MetadataV9

from cluster.node.log.types import METADATA_TOPIC, METADATA_TOPIC_ID
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import (
    SERVED,
    ApiKey,
    highest_request_class,
    highest_response_class,
    request_class,
    response_class,
)
from cluster.node.protocol.convert import ConversionError, convert
from tests.cluster.node.protocol.entities import entities

VERSIONS = [
    (key, version)
    for key, r in SERVED.items()
    if key is not ApiKey.PRODUCE  # its versions are read and written as they are
    for version in range(r.lowest, r.highest + 1)
]
# Where a version renamed a field only lifting is needed: peers and clients of ours send no such.
ONE_WAY = (
    [(ApiKey.METADATA, 0)]
    + [(ApiKey.DELETE_TOPICS, v) for v in range(1, 6)]
    + [(ApiKey.FETCH, v) for v in range(4, 15)]
)
# Versions 8 to 10 of Metadata have authorized operations of the cluster, later ones do not.
DROPPED = {"include_cluster_authorized_operations", "cluster_authorized_operations"}
few = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))


def without_dropped(entity):
    if entity.__api_key__ == ApiKey.UPDATE_FEATURES and hasattr(entity, "results"):
        return dataclasses.replace(entity, results=())  # made from the request, when it is written
    if entity.__api_key__ != ApiKey.METADATA:
        return entity
    dropped = {
        field.name: False if field.default is dataclasses.MISSING else field.default
        for field in dataclasses.fields(entity)
        if field.name in DROPPED
    }
    return dataclasses.replace(entity, **dropped)


@pytest.mark.parametrize(("key", "version"), [v for v in VERSIONS if v not in ONE_WAY])
@few
@given(data=st.data())
def test_a_lifted_request_lowers_to_what_it_was(key, version, data):
    request = data.draw(entities(request_class(key, version)))
    lifted = convert(request, highest_request_class(key))
    assert convert(lifted, type(request)) == without_dropped(request)


@pytest.mark.parametrize(
    ("key", "version"), [v for v in VERSIONS if v[0] is not ApiKey.FETCH or v[1] >= 13]
)
@few
@given(data=st.data())
def test_a_lifted_response_lowers_to_what_it_was(key, version, data):
    response = data.draw(entities(response_class(key, version)))
    lifted = convert(response, highest_response_class(key))
    assert convert(lifted, type(response)) == without_dropped(response)


def test_an_empty_topic_list_asks_version_0_for_everything():
    assert convert(MetadataV0(topics=()), m.MetadataRequest).topics is None


def test_topic_names_become_topic_states():
    request = convert(
        DeleteTopicsV5(topic_names=("a", "b"), timeout=m.NO_THROTTLE),
        highest_request_class(ApiKey.DELETE_TOPICS),
    )
    assert [(t.name, t.topic_id) for t in request.topics] == [("a", None), ("b", None)]


def test_a_fetch_by_topic_name_is_lifted_to_the_metadata_topic_id():
    topic = fetch_v12.FetchTopic(topic=METADATA_TOPIC, partitions=())
    other = fetch_v12.FetchTopic(topic="other", partitions=())
    request = fetch_v12.FetchRequest(
        replica_id=3,
        max_wait=m.NO_THROTTLE,
        min_bytes=0,
        topics=(topic, other),
        forgotten_topics_data=(),
    )
    lifted = convert(request, highest_request_class(ApiKey.FETCH))
    assert [t.topic_id for t in lifted.topics] == [METADATA_TOPIC_ID, None]
    assert lifted.replica_state.replica_id == 3


def test_a_topic_id_is_never_lowered_away():
    topic = m.MetadataRequestTopic(topic_id=uuid.uuid4(), name="a")
    request = m.MetadataRequest(topics=(topic,), include_topic_authorized_operations=False)
    with pytest.raises(ConversionError, match="topic_id"):
        convert(request, MetadataV9)


@given(st.sampled_from(["brokers", "topics"]))
def test_null_where_the_schema_has_none_is_refused(field):
    response = m.MetadataResponse(throttle_time=m.NO_THROTTLE, brokers=(), topics=(), error_code=0)
    broken = dataclasses.replace(response, **{field: None})
    with pytest.raises(ConversionError, match=f"MetadataResponse.{field} is null"):
        convert(broken, m.MetadataResponse)
