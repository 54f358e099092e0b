"""kio's entities, and their bytes by kio alone: what other programs send, and what ours must read."""

import dataclasses
import datetime as dt
import io
import struct

from kio.serial import entity_writer

from cluster.node.errors import ErrorCode

EMPTY = {"error_code": ErrorCode.none, "timedelta_i32": dt.timedelta()}


def filled(cls, **given):
    """An entity. What is not given, and has no default, is no error, no time or null."""
    for field in dataclasses.fields(cls):
        if field.name not in given and field.default is dataclasses.MISSING:
            given[field.name] = EMPTY.get(field.metadata.get("kafka_type"))
    return cls(**given)


def body_of(entity) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def request_frame(entity, correlation_id: int = 7, client_id: str | None = "c") -> bytes:
    """A request with its header, without its size."""
    head = struct.pack(">hhi", entity.__api_key__, entity.__version__, correlation_id)
    name = None if client_id is None else client_id.encode()
    named = struct.pack(">h", -1) if name is None else struct.pack(">h", len(name)) + name
    tags = b"\0" if entity.__header_schema__.__flexible__ else b""
    return head + named + tags + body_of(entity)
