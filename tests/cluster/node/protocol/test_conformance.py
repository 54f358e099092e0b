"""kafka-python decodes our frames and we decode its: a check by independent code."""

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.node.errors import ErrorCode
from cluster.node.protocol.apis import SERVED, ApiKey, ListenerType, request_class, response_class
from cluster.node.protocol.codec import Request, read_request, write_response
from cluster.node.protocol.convert import convert
from tests.cluster.node.protocol.entities import entities
from tests.cluster.node.protocol.kafka_python import MESSAGES
from tests.kio_bytes import body_of

ENDS = [(key, v) for key in MESSAGES for v in sorted({SERVED[key].lowest, SERVED[key].highest})]
FLAT = {ApiKey.DESCRIBE_QUORUM, ApiKey.FETCH, ApiKey.PRODUCE}
few = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


def responses(key, version):
    found = entities(response_class(key, version))
    if key is ApiKey.API_VERSIONS:  # kafka-python takes every ApiVersions with an error for v0
        found = found.map(lambda r: dataclasses.replace(r, error_code=ErrorCode.none))
    return found


def encoded(theirs, version):
    theirs._header = None  # decode() skips __init__, which encode() relies on
    return bytes(theirs.encode(version=version))


@pytest.mark.parametrize(("key", "version"), ENDS)
@few
@given(data=st.data())
def test_kafka_python_reads_our_bodies_and_writes_the_same_bytes(key, version, data):
    response = data.draw(responses(key, version))
    decoded = MESSAGES[key][1].decode(body_of(response), version=version)
    assert encoded(decoded, version) == body_of(response)


@pytest.mark.parametrize(("key", "version"), [e for e in ENDS if e[0] not in FLAT])
@few
@given(data=st.data())
def test_kafka_python_reads_our_frames(key, version, data):
    response = data.draw(responses(key, version))
    frame = write_response(Request(key, version, 77, None, None), response)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    decoded = MESSAGES[key][1].decode(frame[4:], version=version, header=True)
    assert decoded.header.correlation_id == 77
    assert encoded(decoded, version) == body_of(response)


@pytest.mark.parametrize(("key", "version"), [e for e in ENDS if e[0] not in FLAT])
@few
@given(data=st.data())
def test_we_read_kafka_pythons_requests(key, version, data):
    request = data.draw(entities(request_class(key, version)))
    theirs = MESSAGES[key][0].decode(body_of(request), version=version)
    theirs._header = None
    theirs.API_VERSION = version
    theirs.with_header(correlation_id=9, client_id="theirs")
    frame = bytes(theirs.encode(header=True))
    ours = read_request(frame, SERVED, ListenerType.BROKER)
    assert (ours.key, ours.version, ours.correlation_id) == (key, version, 9)
    assert ours.client_id == "theirs"
    assert ours.message == convert(request, type(ours.message))
