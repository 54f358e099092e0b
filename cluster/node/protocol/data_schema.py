"""What the mappings of Produce and Fetch of data share: naming topics, leaders, classes.

The versions differ in how topics are named, which no conversion between kio's classes can follow;
so each is read and written as it is. A field that a version lacks has its default in the flat form,
and is left out when it is written. Both are the hot path of a broker.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from sys import modules
from typing import Any, Final, TypeVar

from cluster.node.ports import Endpoint
from cluster.node.protocol import data_messages
from cluster.node.protocol.apis import SERVED, ApiKey, VersionRange
from cluster.values import valueclass

TOPIC_IDS_FROM: Final = 13
"""The first version of either API in which topics are given by their ids."""
PRODUCE_ADDS_FROM: Final = 12
"""The first version of Produce that adds its partitions to the transaction (KIP-890)."""
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND: Final = dt.timedelta(milliseconds=1)
NOTHING: Final = dt.timedelta(0)
_NO_ID: Final = uuid.UUID(int=0)

_Row = TypeVar(
    "_Row",
    data_messages.ProducePartition,
    data_messages.ProduceResult,
    data_messages.FetchPartition,
    data_messages.FetchResult,
)


@valueclass
class DataCodec:
    """How one API's flat messages become kio's of a version, and back."""

    key: ApiKey
    write_request: Callable[[Any, int], Any]
    read_request: Callable[[Any], Any]
    write_response: Callable[[Any, int], Any]
    read_response: Callable[[Any], Any]

    def versions_for(
        self, request: data_messages.ProduceRequest | data_messages.FetchRequest
    ) -> VersionRange:
        """Return the versions that can carry a request: they name topics as it does.

        Of a transaction they also add partitions to it, or do not, as the request says.
        """
        versions = SERVED[self.key]
        if (
            isinstance(request, data_messages.ProduceRequest)
            and request.transactional_id is not None
        ):
            adds = VersionRange(PRODUCE_ADDS_FROM, versions.highest)
            adds_not = VersionRange(versions.lowest, PRODUCE_ADDS_FROM - 1)
            versions = adds if request.adds_partitions else adds_not
        topics = [row.topic for row in request.partitions[:1]]
        if isinstance(request, data_messages.FetchRequest):
            topics += [topic for topic, _ in request.forgotten[:1]]
        if not topics:
            return versions
        if isinstance(topics[0], str):
            return VersionRange(versions.lowest, min(versions.highest, TOPIC_IDS_FROM - 1))
        return VersionRange(TOPIC_IDS_FROM, versions.highest)


class Form:
    """The classes of one message in one version."""

    def __init__(self, entity: Any) -> None:
        self._module = modules[entity.__module__]

    def make(self, name: str, /, **values: Any) -> Any:
        """Make an instance of a class without the fields that this version lacks."""
        made = getattr(self._module, name)
        known = made.__dataclass_fields__
        return made(**{key: value for key, value in values.items() if key in known})

    def topic(self, name: str, topic: data_messages.Topic, /, **values: Any) -> Any:
        """Make a topic's element, by the name or the id that it is given by."""
        known = getattr(self._module, name).__dataclass_fields__
        assert isinstance(topic, str) != ("topic_id" in known), f"{topic!r} in this version"
        return self.make(name, name=topic, topic=topic, topic_id=topic, **values)

    def has(self, name: str) -> bool:
        """Return whether this version has a class of this name."""
        return hasattr(self._module, name)


def by_topic(rows: Sequence[_Row]) -> Iterator[tuple[data_messages.Topic, list[_Row]]]:
    """Gather the rows of a topic that follow one another."""
    for topic, found in groupby(rows, key=lambda row: row.topic):
        yield topic, list(found)


def topic_of(element: Any) -> data_messages.Topic:
    """Return what a topic's element is named by; kio reads zero bits as None."""
    if hasattr(element, "topic_id"):
        return _NO_ID if element.topic_id is None else element.topic_id
    return str(element.topic if hasattr(element, "topic") else element.name)


def to_ms(interval: dt.timedelta) -> float:
    """Return an interval in ms."""
    return interval / MILLISECOND


def named_leader(
    form: Form, row: data_messages.ProduceResult | data_messages.FetchResult
) -> dict[str, Any]:
    """Return the tagged leader of a partition's answer; one without a leader has an epoch, too."""
    known = (row.leader_id, row.leader_epoch) != (data_messages.NO_LEADER, data_messages.NO_EPOCH)
    if not known or not form.has("LeaderIdAndEpoch"):
        return {}
    leader = form.make("LeaderIdAndEpoch", leader_id=row.leader_id, leader_epoch=row.leader_epoch)
    return {"current_leader": leader}


def named_endpoints(form: Form, endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    """Return the tagged endpoints of an answer's leaders, where there are any."""
    if not endpoints or not form.has("NodeEndpoint"):
        return {}
    made = (
        form.make("NodeEndpoint", node_id=at.node_id, host=at.host, port=at.port)
        for at in endpoints
    )
    return {"node_endpoints": tuple(made)}


def read_endpoints(body: Any) -> tuple[Endpoint, ...]:
    """Return the endpoints of the leaders that an answer names."""
    found = getattr(body, "node_endpoints", ())
    return tuple(Endpoint(int(at.node_id), at.host, int(at.port)) for at in found)


def read_leader(item: Any) -> tuple[int, int]:
    """Return id and epoch of the leader that a partition's answer names."""
    leader = getattr(item, "current_leader", None)
    if leader is None:
        return data_messages.NO_LEADER, data_messages.NO_EPOCH
    return int(leader.leader_id), int(leader.leader_epoch)
