"""Frames: each message is preceded by its size as an int32.

The splitter never believes a size: it collects what has arrived and gives a frame when all of it is
there, so a peer that announces much and sends little costs nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

DEFAULT_MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""Kafka's `socket.request.max.bytes`."""

_SIZE: Final = struct.Struct(">i")


class FrameError(Exception):
    """A size that no frame has; nothing after it can be understood."""


class FrameSplitter:
    """Cuts a byte stream into frames, without their sizes, in order."""

    __slots__ = ("_chunks", "_pending_bytes", "_wanted_bytes", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        assert max_frame_bytes > 0
        self.max_frame_bytes = max_frame_bytes
        self._chunks: list[bytes] = []
        self._pending_bytes = 0
        self._wanted_bytes = _SIZE.size

    @property
    def pending_bytes(self) -> int:
        """Bytes held of a frame that is not complete."""
        return self._pending_bytes

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes; yield each whole frame, all before the next call. Raises FrameError."""
        self._chunks.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes < self._wanted_bytes:
            return
        stream = data if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        position = 0
        self._wanted_bytes = _SIZE.size
        while len(stream) - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(stream, position)
            if not 0 <= size <= self.max_frame_bytes:
                self._pending_bytes = 0
                raise FrameError(f"frame of {size} bytes, limit {self.max_frame_bytes}")
            end = position + _SIZE.size + size
            if end > len(stream):
                self._wanted_bytes = _SIZE.size + size
                break
            yield stream[position + _SIZE.size : end]
            position = end
        rest = stream[position:]
        self._pending_bytes = len(rest)
        if rest:
            self._chunks.append(rest)
