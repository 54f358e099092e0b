"""Inflating the records of a compressed batch, with a bound on what comes out.

A batch of a megabyte can stand for a gigabyte, and anybody who may produce can send it: so each
codec stops at the bound instead of growing. Snappy needs no stop, it inflates by a factor of 21 at
most. Codecs are those of Kafka: gzip, snappy in xerial's blocks, lz4 and zstd frames.
"""

from __future__ import annotations

import zlib
from types import ModuleType

import cramjam
from aiokafka.codec import snappy_decode

NO_COMPRESSION, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_GZIP_WINDOW_BITS = 31
_FIRST_ROOM_BYTES = 1 << 16


class DamagedRecordsError(Exception):
    """The codec does not understand the bytes."""


def inflate(codec: int, data: bytes, max_bytes: int) -> bytes:
    """Return the records in plain.

    Raises DamagedRecordsError when they are damaged, OverflowError when they take more than
    `max_bytes`, ValueError when there is no such codec.
    """
    if codec == GZIP:
        return _gunzip(data, max_bytes)
    if codec == SNAPPY:
        try:
            plain: bytes = snappy_decode(data)
        except Exception as error:  # the codec raises what it likes
            raise DamagedRecordsError(str(error)) from error
        if len(plain) > max_bytes:
            raise OverflowError(f"{len(plain)} bytes of records")
        return plain
    if codec not in {LZ4, ZSTD}:
        raise ValueError(f"Unknown compression type id: {codec}")
    return _inflate_into_room(cramjam.lz4 if codec == LZ4 else cramjam.zstd, data, max_bytes)


def _inflate_into_room(module: ModuleType, data: bytes, max_bytes: int) -> bytes:
    """Inflate into a little room first: clearing all that is allowed takes 60 ms for 100 MB."""
    room_bytes = min(max_bytes, max(_FIRST_ROOM_BYTES, 8 * len(data)))
    while True:
        space = bytearray(room_bytes)
        try:
            size_bytes = module.decompress_into(data, space)
        except Exception as error:
            if not _is_full(error):
                raise DamagedRecordsError(str(error)) from error
            if room_bytes == max_bytes:
                raise OverflowError(f"more than {max_bytes} bytes of records") from error
            room_bytes = min(max_bytes, 8 * room_bytes)
        else:
            return bytes(memoryview(space)[:size_bytes])


def _gunzip(data: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        plain = stream.decompress(data, max_bytes)
    except zlib.error as error:
        raise DamagedRecordsError(str(error)) from error
    if stream.unconsumed_tail:
        raise OverflowError(f"more than {max_bytes} bytes of records")
    if not stream.eof:
        raise DamagedRecordsError("the stream is cut off")
    return plain


def _is_full(error: Exception) -> bool:
    return "write" in str(error) or "too small" in str(error)
