"""Produce (0) and Fetch (1) of data between flat form and kio's, version by version."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from cluster.node.errors import ErrorCode
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.protocol import data_messages, data_schema
from cluster.node.protocol.apis import ApiKey, request_class, response_class

_NO_LIMIT: Final = 2**63 - 1


def _write_fetch_request(m: data_messages.FetchRequest, version: int) -> Any:
    form = data_schema.Form(request_class(ApiKey.FETCH, version))
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
                "FetchTopic", topic, partitions=tuple(_fetch_partition(form, row) for row in rows)
            )
            for topic, rows in data_schema.by_topic(m.partitions)
        ),
        forgotten_topics_data=tuple(
            form.topic("ForgottenTopic", topic, partitions=tuple(index for _, index in found))
            for topic, found in groupby(m.forgotten, key=lambda pair: pair[0])
            if form.has("ForgottenTopic")
        ),
        rack_id=m.rack or "",
        **state,
    )


def _fetch_partition(form: data_schema.Form, row: data_messages.FetchPartition) -> Any:
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


def _read_fetch_request(body: Any) -> data_messages.FetchRequest:
    replica = getattr(body, "replica_state", body)
    return data_messages.FetchRequest(
        replica_id=int(replica.replica_id),
        replica_epoch=int(getattr(replica, "replica_epoch", data_messages.NO_EPOCH)),
        max_wait_ms=data_schema.to_ms(body.max_wait),
        min_bytes=int(body.min_bytes),
        max_bytes=int(body.max_bytes),
        partitions=tuple(
            _read_fetch_partition(data_schema.topic_of(topic), item)
            for topic in body.topics
            for item in topic.partitions
        ),
        forgotten=tuple(
            (data_schema.topic_of(topic), int(index))
            for topic in getattr(body, "forgotten_topics_data", ())
            for index in topic.partitions
        ),
        session_id=int(getattr(body, "session_id", 0)),
        session_epoch=int(getattr(body, "session_epoch", -1)),
        committed_only=int(body.isolation_level) == 1,
        cluster_id=getattr(body, "cluster_id", None),
        rack=getattr(body, "rack_id", None),
    )


def _read_fetch_partition(topic: data_messages.Topic, item: Any) -> data_messages.FetchPartition:
    return data_messages.FetchPartition(
        topic=topic,
        index=int(item.partition),
        fetch_offset=int(item.fetch_offset),
        max_bytes=int(item.partition_max_bytes),
        current_leader_epoch=int(getattr(item, "current_leader_epoch", data_messages.NO_EPOCH)),
        last_fetched_epoch=int(getattr(item, "last_fetched_epoch", data_messages.NO_EPOCH)),
        log_start_offset=int(getattr(item, "log_start_offset", data_messages.NO_OFFSET)),
        high_watermark=int(getattr(item, "high_watermark", _NO_LIMIT)),
    )


def _write_fetch_response(m: data_messages.FetchResponse, version: int) -> Any:
    form = data_schema.Form(response_class(ApiKey.FETCH, version))
    return form.make(
        "FetchResponse",
        throttle_time=data_schema.NOTHING,
        error_code=m.error,
        session_id=m.session_id,
        responses=tuple(
            form.topic(
                "FetchableTopicResponse",
                topic,
                partitions=tuple(_fetch_result(form, row) for row in rows),
            )
            for topic, rows in data_schema.by_topic(m.partitions)
        ),
        **data_schema.named_endpoints(form, m.endpoints),
    )


def _fetch_result(form: data_schema.Form, row: data_messages.FetchResult) -> Any:
    tagged = data_schema.named_leader(form, row)
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
        aborted_transactions=_abortions(form, row.aborted) if row.aborted else None,
        preferred_read_replica=data_messages.NO_LEADER,
        records=row.records,  # never null, which Java's followers do not take (KAFKA-18646)
        **tagged,
    )


def _abortions(
    form: data_schema.Form, transactions: Sequence[data_messages.AbortedTransaction]
) -> tuple[Any, ...]:
    return tuple(
        form.make(
            "AbortedTransaction", producer_id=each.producer_id, first_offset=each.first_offset
        )
        for each in transactions
    )


def _read_fetch_response(body: Any) -> data_messages.FetchResponse:
    return data_messages.FetchResponse(
        error=getattr(body, "error_code", ErrorCode.none),
        partitions=tuple(
            _read_fetch_result(data_schema.topic_of(topic), item)
            for topic in body.responses
            for item in topic.partitions
        ),
        session_id=int(getattr(body, "session_id", 0)),
        endpoints=data_schema.read_endpoints(body),
    )


def _read_fetch_result(topic: data_messages.Topic, item: Any) -> data_messages.FetchResult:
    leader_id, leader_epoch = data_schema.read_leader(item)
    diverging = getattr(item, "diverging_epoch", None)
    if diverging is not None:
        end = OffsetAndEpoch(int(diverging.end_offset), int(diverging.epoch))
        diverging = None if end.epoch == data_messages.NO_EPOCH else end
    return data_messages.FetchResult(
        topic=topic,
        index=int(item.partition_index),
        error=item.error_code,
        high_watermark=int(item.high_watermark),
        last_stable_offset=int(item.last_stable_offset),
        log_start_offset=int(getattr(item, "log_start_offset", data_messages.NO_OFFSET)),
        diverging=diverging,
        records=bytes(item.records or b""),
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        aborted=tuple(
            data_messages.AbortedTransaction(int(each.first_offset), int(each.producer_id))
            for each in item.aborted_transactions or ()
        ),
    )


FETCH: Final = data_schema.DataCodec(
    ApiKey.FETCH,
    _write_fetch_request,
    _read_fetch_request,
    _write_fetch_response,
    _read_fetch_response,
)


def _write_produce_request(m: data_messages.ProduceRequest, version: int) -> Any:
    form = data_schema.Form(request_class(ApiKey.PRODUCE, version))
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
            for topic, rows in data_schema.by_topic(m.partitions)
        ),
    )


def _read_produce_request(body: Any) -> data_messages.ProduceRequest:
    return data_messages.ProduceRequest(
        acks=int(body.acks),
        timeout_ms=data_schema.to_ms(body.timeout),
        partitions=tuple(
            data_messages.ProducePartition(
                data_schema.topic_of(topic), int(item.index), bytes(item.records or b"")
            )
            for topic in body.topic_data
            for item in topic.partition_data
        ),
        transactional_id=body.transactional_id,
        adds_partitions=(
            body.transactional_id is not None and body.__version__ >= data_schema.PRODUCE_ADDS_FROM
        ),
    )


def _write_produce_response(m: data_messages.ProduceResponse, version: int) -> Any:
    form = data_schema.Form(response_class(ApiKey.PRODUCE, version))
    return form.make(
        "ProduceResponse",
        responses=tuple(
            form.topic(
                "TopicProduceResponse",
                topic,
                partition_responses=tuple(_produce_result(form, row) for row in rows),
            )
            for topic, rows in data_schema.by_topic(m.partitions)
        ),
        throttle_time=data_schema.NOTHING,
        **data_schema.named_endpoints(form, m.endpoints),
    )


def _produce_result(form: data_schema.Form, row: data_messages.ProduceResult) -> Any:
    appended = row.log_append_time_ms
    return form.make(
        "PartitionProduceResponse",
        index=row.index,
        error_code=row.error,
        base_offset=row.base_offset,
        log_append_time=None
        if appended == data_messages.NO_TIMESTAMP
        else data_schema.EPOCH + appended * data_schema.MILLISECOND,
        log_start_offset=row.log_start_offset,
        record_errors=(),
        error_message=row.error_message,
        **data_schema.named_leader(form, row),
    )


def _read_produce_response(body: Any) -> data_messages.ProduceResponse:
    return data_messages.ProduceResponse(
        partitions=tuple(
            _read_produce_result(data_schema.topic_of(topic), item)
            for topic in body.responses
            for item in topic.partition_responses
        ),
        endpoints=data_schema.read_endpoints(body),
    )


def _read_produce_result(topic: data_messages.Topic, item: Any) -> data_messages.ProduceResult:
    leader_id, leader_epoch = data_schema.read_leader(item)
    appended = item.log_append_time
    appended_ms = (
        data_messages.NO_TIMESTAMP
        if appended is None
        else (appended - data_schema.EPOCH) // data_schema.MILLISECOND
    )
    return data_messages.ProduceResult(
        topic=topic,
        index=int(item.index),
        error=item.error_code,
        base_offset=int(item.base_offset),
        log_append_time_ms=appended_ms,
        log_start_offset=int(getattr(item, "log_start_offset", data_messages.NO_OFFSET)),
        error_message=getattr(item, "error_message", None),
        leader_id=leader_id,
        leader_epoch=leader_epoch,
    )


PRODUCE: Final = data_schema.DataCodec(
    ApiKey.PRODUCE,
    _write_produce_request,
    _read_produce_request,
    _write_produce_response,
    _read_produce_response,
)
