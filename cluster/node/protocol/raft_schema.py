"""What the mappings of raft's messages share: finding the one metadata partition, endpoints.

Kafka's messages carry arrays of topics and partitions although there is one metadata partition. A
well-formed request about anything else never reaches the core: the mapping raises `Refused` with
the answer that KafkaRaftClient gives. Requests that carry a leader's endpoints name the listener of
each: we send one, that of `CONTROLLER_LISTENER`, and of those received take it, else the first.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final, Literal

from kio.index import load_payload_module
from kio.static.constants import EntityType

from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import METADATA_TOPIC, NO_DIRECTORY
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import SERVED, ApiKey
from cluster.node.protocol.convert import ConversionError
from cluster.values import valueclass

CONTROLLER_LISTENER: Final = "CONTROLLER"
"""The name under which endpoints of controllers travel, by Kafka's custom."""
HOST_NAME_MAX: Final = 255
"""Longest host name (RFC 1035, 2.3.4)."""


class Refused(Exception):  # noqa: N818 - it carries an answer and is no error of ours
    """A well-formed request that the core must not see. `response`: kio's, highest version."""

    def __init__(self, response: Any) -> None:
        super().__init__("not about the metadata partition")
        self.response = response


@valueclass
class RaftCodec:
    """How one API's flat messages become kio's of the highest version, and back.

    `read_request` raises Refused; both readers raise ConversionError for what Kafka never sends.
    """

    key: ApiKey
    write_request: Callable[[Any], Any]
    read_request: Callable[[Any], Any]
    write_response: Callable[[Any], Any]
    read_response: Callable[[Any], Any]


def schema(key: ApiKey, kind: Literal["request", "response"]) -> Any:
    """Return kio's module of the highest version; Any, so that plain ints pass for its i32."""
    entity = EntityType.request if kind == "request" else EntityType.response
    return load_payload_module(int(key), SERVED[key].highest, entity)  # type: ignore[arg-type]  # the literals of both entity types are not exported


def directory(found: uuid.UUID | None) -> uuid.UUID:
    """Return a directory id as the core has it: kio reads zero bits as None."""
    return NO_DIRECTORY if found is None else found


def metadata_partition(topics: Any, refusal: Any) -> Any:
    """Return a request's only partition. Raises Refused when it is not the metadata topic's."""
    if topics is not None and len(topics) == 1 and topics[0].topic_name == METADATA_TOPIC:
        partitions = topics[0].partitions
        if partitions is not None and len(partitions) == 1 and partitions[0].partition_index == 0:
            return partitions[0]
    raise Refused(refusal(error_code=ErrorCode.invalid_request, topics=()))


def only_partition(topics: Any) -> Any:
    """Return a response's only partition. Raises ConversionError."""
    if topics is None or len(topics) != 1:
        raise ConversionError("a response about one topic was expected")
    partitions = topics[0].partitions
    if partitions is None or len(partitions) != 1:
        raise ConversionError("a response about one partition was expected")
    return partitions[0]


def named_topic(topic: Any, partition: Any) -> tuple[Any]:
    """Return the topics array around the metadata partition."""
    return (topic(topic_name=METADATA_TOPIC, partitions=(partition,)),)


def leader_endpoints(listener: Any, endpoint: Endpoint | None) -> tuple[Any, ...]:
    """Return the endpoints by listener name that a leader's request carries."""
    if endpoint is None:
        return ()
    return (listener(name=CONTROLLER_LISTENER, host=endpoint.host, port=endpoint.port),)


def leader_endpoint(leader_id: int, endpoints: Any) -> Endpoint | None:
    """Return where a leader says that it listens."""
    if not endpoints:
        return None
    chosen = next((e for e in endpoints if e.name == CONTROLLER_LISTENER), endpoints[0])
    return reachable(leader_id, chosen.host, chosen.port)


def reachable(node_id: int, host: str, port: int) -> Endpoint | None:
    """Return an endpoint that a peer names; None where nobody can listen: it is not known.

    Some messages have a port of 32 bits, which those of 16 bits could not pass on.
    """
    valid = 0 < len(host) <= HOST_NAME_MAX and 0 < port < 65536
    return Endpoint(node_id, host, port) if valid else None


def node_endpoints(node: Any, endpoint: Endpoint | None) -> tuple[Any, ...]:
    """Return the endpoints by node id that a response carries."""
    if endpoint is None:
        return ()
    return (node(node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port),)


def node_endpoint(leader_id: int, endpoints: Any) -> Endpoint | None:
    """Return where a response says that the leader listens."""
    for endpoint in endpoints or ():
        if endpoint.node_id == leader_id:
            return reachable(leader_id, endpoint.host, endpoint.port)
    return None
