"""The data path through a listener: frames in each version, what is a Fetch, what has no answer."""

import dataclasses
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages as raft
from cluster.node.log.types import METADATA_TOPIC_ID
from cluster.node.protocol import data_messages as d
from cluster.node.protocol.apis import (
    DATA_APIS,
    LISTENER_APIS,
    SERVED,
    ApiKey,
    ListenerType,
    VersionRange,
    request_class,
    response_class,
)
from cluster.node.protocol.codec import (
    UnwritableError,
    api_key_of,
    read_request,
    read_response,
    spoken_versions,
    write_request,
    write_response,
)
from cluster.node.protocol.messages import NO_THROTTLE, ApiVersionsRequest
from cluster.node.wire.bounds import MalformedError
from tests.cluster.client.data_samples import NAME, TOPIC_ID, sample
from tests.cluster.node.protocol.data_service import data_listener
from tests.cluster.node.protocol.entities import entities
from tests.kio_bytes import body_of, request_frame

DATA = ListenerType.BROKER
VERSIONS = [
    (key, v) for key in DATA_APIS for v in range(SERVED[key].lowest, SERVED[key].highest + 1)
]
few = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
OK = d.ProduceResponse((d.ProduceResult(TOPIC_ID, 0, ErrorCode.none, 5),))
FAILED = d.ProduceResponse(
    (*OK.partitions, d.ProduceResult(TOPIC_ID, 1, ErrorCode.not_leader_or_follower))
)


def received(frame):
    return read_request(frame, LISTENER_APIS[DATA], DATA)


def answered(entity):
    """What the sender of a request reads of a response of kio's."""
    tags = b"\0" if entity.__header_schema__.__flexible__ else b""
    frame = (7).to_bytes(4, "big") + tags + body_of(entity)
    return read_response(frame, ApiKey(entity.__api_key__), entity.__version__, DATA)


def wants_answer(request):
    return dataclasses.replace(request, acks=-1) if hasattr(request, "acks") else request


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@few
@given(data=st.data())
def test_a_request_reaches_the_handler_as_kio_wrote_it_and_is_written_as_it_was_read(
    key, version, data
):
    entity = data.draw(entities(request_class(key, version)))
    request = received(request_frame(entity))
    assert (request.key, request.version, request.client_id) == (key, version, "c")
    assert api_key_of(request.message) is key
    again = write_request(request.message, version, 7, "c")
    assert received(again[4:]) == request


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_a_handlers_response_is_read_by_the_sender_in_its_version(key, version):
    frames = []
    service, handler = data_listener(None)

    @few
    @given(entities(request_class(key, version)), entities(response_class(key, version)))
    def check(request, response):
        frames.clear()
        handler.answer = answered(response)
        service.serve(request_frame(wants_answer(request)), frames.append)
        (frame,) = frames
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert read_response(frame[4:], key, version, DATA) == handler.answer

    check()


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_a_damaged_request_is_refused_or_handled(key, version):
    service, handler = data_listener(None)

    @few
    @given(entities(request_class(key, version)), entities(response_class(key, version)), st.data())
    def check(request, response, data):
        frame = bytearray(request_frame(wants_answer(request)))
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(8, len(frame) - 1))
            frame[at : at + 1] = data.draw(st.sampled_from([b"", b"\xff" * 4, b"\x7f", b"\0\0"]))
        handler.answer = answered(response)
        try:
            service.serve(bytes(frame), lambda _: None)
        except MalformedError:
            return
        assert api_key_of(handler.asked.pop()) is key

    check()


def test_a_fetch_is_of_data_for_brokers_and_of_metadata_for_controllers():
    asked = raft.FetchRequest("c", 3, uuid.UUID(int=9), 1, 5, 1, 500, 1 << 20)
    frame = write_request(asked, 17, 7, "c")[4:]
    assert (
        read_request(frame, LISTENER_APIS[ListenerType.CONTROLLER], ListenerType.CONTROLLER).message
        == asked
    )
    of_data = received(frame).message
    assert type(of_data) is d.FetchRequest
    (partition,) = of_data.partitions
    assert (of_data.replica_id, partition.topic, partition.fetch_offset) == (
        3,
        METADATA_TOPIC_ID,
        5,
    )


def test_a_fetch_of_many_topics_is_served_by_brokers_and_refused_by_controllers():
    partitions = tuple(d.FetchPartition(uuid.UUID(int=n), n, 7, 1 << 20) for n in range(2, 5))
    asked = d.FetchRequest(1, 9, 500.0, 1, 10 << 20, partitions, session_id=4, session_epoch=2)
    assert received(write_request(asked, 18, 7, "c")[4:]).message == asked
    refused = read_request(
        write_request(asked, 18, 7, "c")[4:], LISTENER_APIS[ListenerType.CONTROLLER]
    )
    assert refused.message is None
    assert refused.refusal.error_code is ErrorCode.invalid_request


def test_a_topics_name_or_id_decides_in_which_versions_a_request_can_be_sent():
    def versions(key, topic):
        return spoken_versions(
            dataclasses.replace(sample(key, 13), partitions=partitions(key, topic))
        )

    def partitions(key, topic):
        return (
            d.ProducePartition(topic, 0, b"")
            if key is ApiKey.PRODUCE
            else d.FetchPartition(topic, 0, 0, 1),
        )

    assert versions(ApiKey.PRODUCE, NAME) == VersionRange(3, 12)
    assert versions(ApiKey.PRODUCE, TOPIC_ID) == VersionRange(13, 13)
    assert versions(ApiKey.FETCH, NAME) == VersionRange(4, 12)
    assert versions(ApiKey.FETCH, TOPIC_ID) == VersionRange(13, 18)


def test_an_incremental_fetch_is_sent_as_its_forgotten_topics_are_named():
    asked = d.FetchRequest(1, 9, 500.0, 1, 1 << 20, (), forgotten=((NAME, 0),))
    assert spoken_versions(asked) == VersionRange(4, 12)
    assert spoken_versions(dataclasses.replace(asked, forgotten=())) == VersionRange(4, 18)


def listed(service):
    frames = []
    asked = ApiVersionsRequest(client_software_name="a", client_software_version="b")
    service.serve(write_request(asked, 4, 7, "c")[4:], frames.append)
    keys = read_response(frames[0][4:], ApiKey.API_VERSIONS, 4).api_keys
    return {key.api_key: (key.min_version, key.max_version) for key in keys}


def test_produce_is_listed_from_version_0_which_is_refused_all_the_same():
    service, handler = data_listener(OK)
    found = listed(service)
    assert {key: found[key] for key in DATA_APIS} == {
        ApiKey.PRODUCE: (0, 13),
        ApiKey.FETCH: (4, 18),
        ApiKey.LIST_OFFSETS: (1, 11),
        ApiKey.DELETE_RECORDS: (0, 2),
        ApiKey.INIT_PRODUCER_ID: (0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    }
    for version in range(3):
        frame = bytes([0, 0, 0, version]) + b"\0" * 40
        with pytest.raises(MalformedError, match=f"PRODUCE version {version} is not served here"):
            service.serve(frame, lambda _: None)
    assert handler.asked == []


def test_a_request_of_a_mebibyte_of_records_is_handled_whole():
    service, handler = data_listener(OK)
    asked = d.ProduceRequest(1, 1_000.0, (d.ProducePartition(TOPIC_ID, 0, b"x" * (1 << 20)),))
    service.serve(write_request(asked, 13, 7, "c")[4:], lambda _: None)
    assert handler.asked == [asked]


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (
            d.InitProducerIdRequest(
                transactional_id=None,
                transaction_timeout=NO_THROTTLE,
                producer_id=4,
                producer_epoch=0,
            ),
            2,
        ),
        (d.ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=(), timeout=NO_THROTTLE), 1),
    ],
)
def test_what_an_old_version_cannot_ask_for_is_not_sent(request_, version):
    with pytest.raises(UnwritableError):
        write_request(request_, version, 7, "c")
    assert received(write_request(request_, version + 1, 7, "c")[4:]).message


def test_the_answer_to_a_fetch_of_data_is_read_as_such():
    response = d.FetchResponse(ErrorCode.fetch_session_id_not_found)
    request = received(write_request(sample(ApiKey.FETCH, 18), 18, 7, "c")[4:])
    frame = write_response(request, response)[4:]
    assert read_response(frame, ApiKey.FETCH, 18, DATA) == response
    assert type(read_response(frame, ApiKey.FETCH, 18)) is raft.FetchResponse
