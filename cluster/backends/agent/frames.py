"""Messages of the agent's protocol as bytes: lengths, a JSON object, a payload."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, NamedTuple

LENGTHS = struct.Struct(">II")
_FIELDS_BYTES_MAX = (1 << 24) - 1
"""So the first byte of a message is 0, which begins no text: an engine that writes in an agent's
place is recognised."""
_PAYLOAD_BYTES_MAX = 1 << 30
_LINE_MAX = 300


class Message(NamedTuple):
    """A request or an answer."""

    fields: dict[str, Any]
    payload: bytes = b""


class NotAMessageError(ValueError):
    """What came is no message; the line that it is instead."""


def encode(message: Message) -> bytes:
    """Render a message."""
    text = json.dumps(message.fields).encode()
    assert len(text) <= _FIELDS_BYTES_MAX, "large things are payload"
    return LENGTHS.pack(len(text), len(message.payload)) + text + message.payload


def lengths(head: bytes) -> tuple[int, int]:
    """Read how long fields and payload are. Raises NotAMessageError."""
    fields, payload = LENGTHS.unpack(head)
    if fields > _FIELDS_BYTES_MAX or payload > _PAYLOAD_BYTES_MAX:
        raise NotAMessageError(last_line(head))
    return fields, payload


def decode(text: bytes, payload: bytes) -> Message:
    """Read a message from its two parts. Raises NotAMessageError."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or type(fields.get("id")) is not int:
        raise NotAMessageError(last_line(text))
    return Message(fields, payload)


async def read(reader: asyncio.StreamReader) -> Message:
    """Read the next message. Raises NotAMessageError, IncompleteReadError at the end, OSError."""
    first = await reader.readexactly(1)
    if first != b"\0":
        raise NotAMessageError(last_line(first + await _rest_of_line(first, reader)))
    fields, payload = lengths(first + await reader.readexactly(LENGTHS.size - 1))
    return decode(await reader.readexactly(fields), await reader.readexactly(payload))


def last_line(data: bytes) -> str:
    """Return the last line that says anything, cut to `_LINE_MAX` characters."""
    lines = [line.strip() for line in data.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:_LINE_MAX] if lines else "an empty line"


async def _rest_of_line(first: bytes, reader: asyncio.StreamReader) -> bytes:
    if first == b"\n":
        return b""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        return await reader.readexactly(_LINE_MAX)
