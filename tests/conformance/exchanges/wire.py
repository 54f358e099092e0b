"""Requests from plain tables, in any version, and answers as plain tables."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import io
import socket
import struct
import types
import typing
import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from cluster.node.protocol.codec import MAX_RESPONSE_ELEMENTS
from cluster.node.wire.bounds import bound_frame

TIMEOUT_S = 60.0
CORRELATION = 77


def frame(key: int, version: int, body: Mapping[str, Any]) -> bytes:
    """A whole request. What the version has no field for is left out, and zero what is not given."""
    schema = load_request_schema(key, version)
    header = schema.__header_schema__
    names = {field.name for field in dataclasses.fields(header)}
    head = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": CORRELATION,
        "client_id": "exchanges",
    }
    out = io.BytesIO()
    _write(header)(out, header(**{name: head[name] for name in names}))
    _write(schema)(out, build(schema, body))
    return struct.pack(">i", len(out.getvalue())) + out.getvalue()


def ask(address: tuple[str, int], key: int, version: int, body: Mapping[str, Any]) -> Any:
    """Return the answer as a table, or how the connection ended."""
    with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
        connection.sendall(frame(key, version, body))
        try:
            size = _exactly(connection, 4)
            answer = _exactly(connection, struct.unpack(">i", size)[0])
        except EOFError:
            return "disconnected"
        except TimeoutError:
            return "silence"
    assert answer[:4] == struct.pack(">i", CORRELATION)
    return read(answer, key, version)


def read(answer: bytes, key: int, version: int) -> Any:
    """Return the bytes of an answer as a table."""
    schema = load_response_schema(key, version)
    # kio alone cannot read that there is no time (-1).
    answer = bound_frame(
        answer, (schema.__header_schema__, schema), max_elements=MAX_RESPONSE_ELEMENTS
    )
    _, offset = entity_reader(schema.__header_schema__)(answer, 0)
    message, size = entity_reader(schema)(answer, offset)
    left = len(answer) - offset - size
    return {**table(message), **({"bytes left": left} if left else {})}


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


@cache
def _write(schema: type[Any]) -> Any:
    return entity_writer(schema)


@cache
def _hints(schema: type[Any]) -> Mapping[str, Any]:
    return typing.get_type_hints(schema)


def build(schema: type[Any], values: Mapping[str, Any]) -> Any:
    """Make an entity; a field that is neither given nor has a default is zero, empty or null."""
    given: dict[str, Any] = {}
    for field in dataclasses.fields(schema):
        hint = _hints(schema)[field.name]
        if field.name in values:
            given[field.name] = _of(hint, values[field.name])
        elif field.default is dataclasses.MISSING:
            given[field.name] = _zero(hint)
    return schema(**given)


def _of(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _of(next(part for part in arguments if part is not types.NoneType), value)
    if origin is tuple:
        return tuple(_of(arguments[0], item) for item in value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return build(hint, value)
    if hint is dt.timedelta or getattr(hint, "__name__", "").endswith("Timedelta"):
        return dt.timedelta(milliseconds=value)
    return value


def _zero(hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union) and types.NoneType in arguments:
        return None
    if origin is tuple:
        return ()
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return build(hint, {})
    if getattr(hint, "__name__", "").endswith("Timedelta"):
        return dt.timedelta(0)
    for base, zero in ((bool, False), (str, ""), (bytes, b""), (float, 0.0), (int, 0)):
        with_supertype = getattr(hint, "__supertype__", hint)
        if isinstance(with_supertype, type) and issubclass(with_supertype, base):
            return zero
    return 0


def table(value: Any) -> Any:
    """Render an answer in plain values."""
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: table(getattr(value, field.name)) for field in fields}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dt.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, dt.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, tuple | list):
        return [table(item) for item in value]
    if isinstance(value, bytes | memoryview):
        return f"{len(bytes(value))} bytes"
    return value
