"""Produce (0) between flat form and kio's, version by version."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from cluster.node.protocol import data_messages, data_schema
from cluster.node.protocol.apis import ApiKey, request_class, response_class


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
