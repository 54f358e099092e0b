"""Every served API in its lowest and highest version, over real sockets, on live nodes."""

import dataclasses
import socket
import struct

import pytest
from kio.serial import entity_reader

from cluster.node.protocol.apis import LISTENER_APIS, ListenerType, request_class, response_class
from cluster.node.protocol.convert import schema_default
from cluster.node.wire.bounds import bound_frame
from tests.cluster.client.nodes import TIMEOUT_S
from tests.kio_bytes import request_frame

pytestmark = pytest.mark.cluster

ENDS = [
    (listener, key, version)
    for listener in ListenerType
    for key, versions in LISTENER_APIS[listener].items()
    for version in sorted({versions.lowest, versions.highest})
]


def plain(cls):
    """A request with nothing in it but its schema's defaults, that wants an answer."""
    values = {field.name: schema_default(field, cls) for field in dataclasses.fields(cls)}
    return cls(**(values | {"acks": 1} if "acks" in values else values))


def frame(entity, correlation_id):
    whole = request_frame(entity, correlation_id, None)
    return struct.pack(">i", len(whole)) + whole


def exchange(port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        connection.sendall(data)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            return stream.read(size)


@pytest.mark.parametrize(("listener", "key", "version"), ENDS)
def test_an_api_answers_in_the_version_that_it_was_asked_in(nodes, listener, key, version):
    ports = nodes.client_ports if listener is ListenerType.BROKER else nodes.controller_ports
    answer = exchange(ports[1], frame(plain(request_class(key, version)), 31))
    cls = response_class(key, version)
    # kio reads no time before 1970, which -1 is.
    answer = bound_frame(answer, (cls.__header_schema__, cls), max_elements=10_000)
    header, size = entity_reader(cls.__header_schema__)(answer, 0)
    body, body_size = entity_reader(cls)(answer, size)
    assert header.correlation_id == 31
    assert size + body_size == len(answer)
    assert (body.__api_key__, body.__version__) == (key, version)
