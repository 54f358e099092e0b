"""kio's entities as bytes, by kio alone: what other programs send, and what ours must read."""

import io
import struct

from kio.serial import entity_writer


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
