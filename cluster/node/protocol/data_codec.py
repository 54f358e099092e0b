"""Produce (0) and Fetch (1) of data between flat form and kio's, version by version.

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

from cluster.node.errors import ErrorCode
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.ports import Endpoint
from cluster.node.protocol.apis import ApiKey, request_class, response_class
from cluster.node.protocol.data_messages import (
    NO_EPOCH,
    NO_LEADER,
    NO_OFFSET,
    NO_TIMESTAMP,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResult,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    Topic,
)
from cluster.values import valueclass

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_NOTHING: Final = dt.timedelta(0)
_NO_ID: Final = uuid.UUID(int=0)

_Row = TypeVar("_Row", ProducePartition, ProduceResult, FetchPartition, FetchResult)
_LIMIT: Final = 2**63 - 1


@valueclass
class DataCodec:
    """How one API's flat messages become kio's of a version, and back."""

    key: ApiKey
    write_request: Callable[[Any, int], Any]
    read_request: Callable[[Any], Any]
    write_response: Callable[[Any, int], Any]
    read_response: Callable[[Any], Any]


class _Form:
    """The classes of one message in one version."""

    def __init__(self, entity: Any) -> None:
        self._module = modules[entity.__module__]

    def make(self, name: str, /, **values: Any) -> Any:
        """Make an instance of a class without the fields that this version lacks."""
        made = getattr(self._module, name)
        known = made.__dataclass_fields__
        return made(**{key: value for key, value in values.items() if key in known})

    def topic(self, name: str, topic: Topic, /, **values: Any) -> Any:
        """Make a topic's element, by the name or the id that it is given by."""
        return self.make(name, name=topic, topic=topic, topic_id=topic, **values)

    def has(self, name: str) -> bool:
        """Return whether this version has a class of this name."""
        return hasattr(self._module, name)


def _by_topic(rows: Sequence[_Row]) -> Iterator[tuple[Topic, list[_Row]]]:
    """Gather the rows of a topic that follow one another."""
    for topic, found in groupby(rows, key=lambda row: row.topic):
        yield topic, list(found)


def _topic_of(element: Any) -> Topic:
    if hasattr(element, "topic_id"):
        return _NO_ID if element.topic_id is None else element.topic_id
    return str(element.topic if hasattr(element, "topic") else element.name)


def _ms(interval: dt.timedelta) -> float:
    return interval / _MILLISECOND


def _leader(form: _Form, row: ProduceResult | FetchResult) -> dict[str, Any]:
    """Return the tagged leader of a partition's answer, where there is one to name."""
    if row.leader_id == NO_LEADER or not form.has("LeaderIdAndEpoch"):
        return {}
    leader = form.make("LeaderIdAndEpoch", leader_id=row.leader_id, leader_epoch=row.leader_epoch)
    return {"current_leader": leader}


def _endpoints(form: _Form, endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    if not endpoints or not form.has("NodeEndpoint"):
        return {}
    made = (
        form.make("NodeEndpoint", node_id=at.node_id, host=at.host, port=at.port)
        for at in endpoints
    )
    return {"node_endpoints": tuple(made)}


def _read_endpoints(body: Any) -> tuple[Endpoint, ...]:
    found = getattr(body, "node_endpoints", ())
    return tuple(Endpoint(int(at.node_id), at.host, int(at.port)) for at in found)


def _read_leader(item: Any) -> tuple[int, int]:
    leader = getattr(item, "current_leader", None)
    if leader is None:
        return NO_LEADER, NO_EPOCH
    return int(leader.leader_id), int(leader.leader_epoch)


# --- Produce ---


def _write_produce_request(m: ProduceRequest, version: int) -> Any:
    form = _Form(request_class(ApiKey.PRODUCE, version))
    return form.make(
        "ProduceRequest",
        transactional_id=m.transactional_id,
        acks=m.acks,
        timeout=dt.timedelta(milliseconds=m.timeout_ms),
        topic_data=tuple(
            form.topic(
                "TopicProduceData",
                topic,
                partition_data=tuple(
                    form.make("PartitionProduceData", index=row.index, records=row.records)
                    for row in rows
                ),
            )
            for topic, rows in _by_topic(m.partitions)
        ),
    )


def _read_produce_request(body: Any) -> ProduceRequest:
    return ProduceRequest(
        acks=int(body.acks),
        timeout_ms=_ms(body.timeout),
        partitions=tuple(
            ProducePartition(_topic_of(topic), int(item.index), bytes(item.records or b""))
            for topic in body.topic_data
            for item in topic.partition_data
        ),
        transactional_id=body.transactional_id,
    )


def _write_produce_response(m: ProduceResponse, version: int) -> Any:
    form = _Form(response_class(ApiKey.PRODUCE, version))
    return form.make(
        "ProduceResponse",
        responses=tuple(
            form.topic(
                "TopicProduceResponse",
                topic,
                partition_responses=tuple(_produce_result(form, row) for row in rows),
            )
            for topic, rows in _by_topic(m.partitions)
        ),
        throttle_time=_NOTHING,
        **_endpoints(form, m.endpoints),
    )


def _produce_result(form: _Form, row: ProduceResult) -> Any:
    appended = row.log_append_time_ms
    return form.make(
        "PartitionProduceResponse",
        index=row.index,
        error_code=row.error,
        base_offset=row.base_offset,
        log_append_time=None if appended == NO_TIMESTAMP else _EPOCH + appended * _MILLISECOND,
        log_start_offset=row.log_start_offset,
        record_errors=(),
        error_message=row.error_message,
        **_leader(form, row),
    )


def _read_produce_response(body: Any) -> ProduceResponse:
    return ProduceResponse(
        partitions=tuple(
            _read_produce_result(_topic_of(topic), item)
            for topic in body.responses
            for item in topic.partition_responses
        ),
        endpoints=_read_endpoints(body),
    )


def _read_produce_result(topic: Topic, item: Any) -> ProduceResult:
    leader_id, leader_epoch = _read_leader(item)
    appended = item.log_append_time
    appended_ms = NO_TIMESTAMP if appended is None else (appended - _EPOCH) // _MILLISECOND
    return ProduceResult(
        topic=topic,
        index=int(item.index),
        error=item.error_code,
        base_offset=int(item.base_offset),
        log_append_time_ms=appended_ms,
        log_start_offset=int(getattr(item, "log_start_offset", NO_OFFSET)),
        error_message=getattr(item, "error_message", None),
        leader_id=leader_id,
        leader_epoch=leader_epoch,
    )


PRODUCE: Final = DataCodec(
    ApiKey.PRODUCE,
    _write_produce_request,
    _read_produce_request,
    _write_produce_response,
    _read_produce_response,
)


# --- Fetch ---


def _write_fetch_request(m: FetchRequest, version: int) -> Any:
    form = _Form(request_class(ApiKey.FETCH, version))
    state: dict[str, Any] = {}
    if form.has("ReplicaState"):
        state["replica_state"] = form.make(
            "ReplicaState", replica_id=m.replica_id, replica_epoch=m.replica_epoch
        )
    return form.make(
        "FetchRequest",
        cluster_id=m.cluster_id,
        replica_id=m.replica_id,
        max_wait=dt.timedelta(milliseconds=m.max_wait_ms),
        min_bytes=m.min_bytes,
        max_bytes=m.max_bytes,
        isolation_level=int(m.committed_only),
        session_id=m.session_id,
        session_epoch=m.session_epoch,
        topics=tuple(
            form.topic(
                "FetchTopic",
                topic,
                partitions=tuple(_fetch_partition(form, row) for row in rows),
            )
            for topic, rows in _by_topic(m.partitions)
        ),
        forgotten_topics_data=tuple(
            form.topic("ForgottenTopic", topic, partitions=tuple(index for _, index in found))
            for topic, found in groupby(m.forgotten, key=lambda pair: pair[0])
            if form.has("ForgottenTopic")
        ),
        rack_id=m.rack,
        **state,
    )


def _fetch_partition(form: _Form, row: FetchPartition) -> Any:
    return form.make(
        "FetchPartition",
        partition=row.index,
        current_leader_epoch=row.current_leader_epoch,
        fetch_offset=row.fetch_offset,
        last_fetched_epoch=row.last_fetched_epoch,
        log_start_offset=row.log_start_offset,
        partition_max_bytes=row.max_bytes,
        high_watermark=row.high_watermark,
    )


def _read_fetch_request(body: Any) -> FetchRequest:
    replica = getattr(body, "replica_state", body)
    return FetchRequest(
        replica_id=int(replica.replica_id),
        replica_epoch=int(getattr(replica, "replica_epoch", NO_EPOCH)),
        max_wait_ms=_ms(body.max_wait),
        min_bytes=int(body.min_bytes),
        max_bytes=int(body.max_bytes),
        partitions=tuple(
            _read_fetch_partition(_topic_of(topic), item)
            for topic in body.topics
            for item in topic.partitions
        ),
        forgotten=tuple(
            (_topic_of(topic), int(index))
            for topic in getattr(body, "forgotten_topics_data", ())
            for index in topic.partitions
        ),
        session_id=int(getattr(body, "session_id", 0)),
        session_epoch=int(getattr(body, "session_epoch", -1)),
        committed_only=int(body.isolation_level) == 1,
        cluster_id=getattr(body, "cluster_id", None),
        rack=getattr(body, "rack_id", "") or "",
    )


def _read_fetch_partition(topic: Topic, item: Any) -> FetchPartition:
    return FetchPartition(
        topic=topic,
        index=int(item.partition),
        fetch_offset=int(item.fetch_offset),
        max_bytes=int(item.partition_max_bytes),
        current_leader_epoch=int(getattr(item, "current_leader_epoch", NO_EPOCH)),
        last_fetched_epoch=int(getattr(item, "last_fetched_epoch", NO_EPOCH)),
        log_start_offset=int(getattr(item, "log_start_offset", NO_OFFSET)),
        high_watermark=int(getattr(item, "high_watermark", _LIMIT)),
    )


def _write_fetch_response(m: FetchResponse, version: int) -> Any:
    form = _Form(response_class(ApiKey.FETCH, version))
    return form.make(
        "FetchResponse",
        throttle_time=_NOTHING,
        error_code=m.error,
        session_id=m.session_id,
        responses=tuple(
            form.topic(
                "FetchableTopicResponse",
                topic,
                partitions=tuple(_fetch_result(form, row) for row in rows),
            )
            for topic, rows in _by_topic(m.partitions)
        ),
        **_endpoints(form, m.endpoints),
    )


def _fetch_result(form: _Form, row: FetchResult) -> Any:
    tagged = _leader(form, row)
    if row.diverging is not None and form.has("EpochEndOffset"):
        tagged["diverging_epoch"] = form.make(
            "EpochEndOffset", epoch=row.diverging.epoch, end_offset=row.diverging.offset
        )
    return form.make(
        "PartitionData",
        partition_index=row.index,
        error_code=row.error,
        high_watermark=row.high_watermark,
        last_stable_offset=row.last_stable_offset,
        log_start_offset=row.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=NO_LEADER,
        records=row.records,  # never null, which Java's followers do not take (KAFKA-18646)
        **tagged,
    )


def _read_fetch_response(body: Any) -> FetchResponse:
    return FetchResponse(
        error=getattr(body, "error_code", ErrorCode.none),
        partitions=tuple(
            _read_fetch_result(_topic_of(topic), item)
            for topic in body.responses
            for item in topic.partitions
        ),
        session_id=int(getattr(body, "session_id", 0)),
        endpoints=_read_endpoints(body),
    )


def _read_fetch_result(topic: Topic, item: Any) -> FetchResult:
    leader_id, leader_epoch = _read_leader(item)
    diverging = getattr(item, "diverging_epoch", None)
    if diverging is not None:
        end = OffsetAndEpoch(int(diverging.end_offset), int(diverging.epoch))
        diverging = None if end.epoch == NO_EPOCH else end
    return FetchResult(
        topic=topic,
        index=int(item.partition_index),
        error=item.error_code,
        high_watermark=int(item.high_watermark),
        last_stable_offset=int(item.last_stable_offset),
        log_start_offset=int(getattr(item, "log_start_offset", NO_OFFSET)),
        diverging=diverging,
        records=bytes(item.records or b""),
        leader_id=leader_id,
        leader_epoch=leader_epoch,
    )


FETCH: Final = DataCodec(
    ApiKey.FETCH,
    _write_fetch_request,
    _read_fetch_request,
    _write_fetch_response,
    _read_fetch_response,
)
