"""Record batches as a client sends and reads them: texts in, texts with their offsets out.

What a reader of committed records shows is its own work (KIP-98). A broker returns everything below
the last stable offset, and names the aborted transactions among it. A producer's batches belong to
an aborted one from its first offset on, up to the abort marker of that producer, as in Kafka's
`CompletedFetch`: by offset, and by producer id alone.
"""

from __future__ import annotations

import heapq
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aiokafka.codec import lz4_encode, snappy_encode, zstd_encode
from crc32c import crc32c

from cluster.node.log.batch.compression import GZIP, LZ4, SNAPPY, ZSTD
from cluster.node.log.batch.records import (
    HEADER_BYTES,
    NOBODY,
    PREFIX_BYTES,
    BatchHeader,
    CorruptBatchError,
    Record,
    Sequenced,
    batch_size_bytes,
    check_batch,
    decode_batch,
    encode_batch,
    inflate_batch,
)
from cluster.node.protocol.data_messages import AbortedTransaction

NO_EPOCH = -1
"""The leader fills in its own."""
_MARKER_KEY = struct.Struct(">hh")
_ABORT_MARKER = 0
"""Version and type of a control record that ends a transaction (`ControlRecordType.java`)."""


_CHECKED_FROM = 21
"""Where the attributes are, with which the part begins that the CRC before them covers."""
_GZIP_WINDOW_BITS = 31
_INFLATED_MAX_BYTES = 1 << 30
"""Far more than a broker takes."""


def _gzip(data: bytes) -> bytes:
    """Compress without the time of day, which other encoders write: the same bytes every time."""
    stream = zlib.compressobj(wbits=_GZIP_WINDOW_BITS)
    return stream.compress(data) + stream.flush()


CODECS: Final[Mapping[str, tuple[int, Callable[[bytes], bytes]]]] = {
    "gzip": (GZIP, _gzip),
    "snappy": (SNAPPY, snappy_encode),
    "lz4": (LZ4, lz4_encode),
    "zstd": (ZSTD, zstd_encode),
}
"""By the names of `compression.type`: their numbers in a batch's attributes, and encoders."""


def batch_of(
    values: Sequence[str],
    timestamp_ms: int,
    sequenced: Sequenced = NOBODY,
    compression: str = "none",
) -> bytes:
    """Encode one batch, which is appended whole or not at all. `compression`: of `CODECS`."""
    records = [Record(value.encode()) for value in values]
    batch = encode_batch(0, NO_EPOCH, records, timestamp_ms, sequenced=sequenced)
    return _compress(batch, *CODECS[compression]) if compression in CODECS else batch


def _compress(batch: bytes, codec: int, encode: Callable[[bytes], bytes]) -> bytes:
    """Compress the records of a batch, whether or not that makes it smaller."""
    made = bytearray(batch[:HEADER_BYTES]) + encode(batch[HEADER_BYTES:])
    struct.pack_into(">i", made, PREFIX_BYTES - 4, len(made) - PREFIX_BYTES)
    made[_CHECKED_FROM + 1] |= codec
    struct.pack_into(">I", made, _CHECKED_FROM - 4, crc32c(memoryview(made)[_CHECKED_FROM:]))
    return bytes(made)


def read_batches(
    data: bytes, position: int, aborted: Sequence[AbortedTransaction] = ()
) -> tuple[tuple[tuple[int, str], ...], int]:
    """Decode what a Fetch from `position` returned, control batches left out.

    Returns (offset, value) of each record, and the position afterwards: behind the last batch, also
    where that is not to be shown.

    `aborted`: the transactions whose records are left out as well. The last batch may be cut off,
    as a broker cuts by bytes; the first may begin below `position`, which may stand within it.
    Raises CorruptBatchError; also for a record without a text, and for batches that are not in
    order.
    """
    records: list[tuple[int, str]] = []
    hidden = _Hidden(aborted)
    begin = next_offset = 0
    while (size_bytes := batch_size_bytes(data, begin)) is not None:
        end = begin + size_bytes
        if end > len(data):
            break
        header = check_batch(data, begin, gaps=True)
        if header.base_offset < next_offset:
            raise CorruptBatchError(
                f"batch at byte {begin}: offset {header.base_offset} behind {next_offset - 1}"
            )
        next_offset = header.next_offset
        batch = data[begin:end]
        if not hidden.hides(header, batch) and not header.is_control:
            records += _texts(batch, position)
        begin = end
    return tuple(records), max(position, next_offset)


class _Hidden:
    """Which batches belong to aborted transactions, asked in the order of their offsets."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._to_come = list(aborted)
        heapq.heapify(self._to_come)
        self._producers: set[int] = set()

    def hides(self, header: BatchHeader, batch: bytes) -> bool:
        while self._to_come and self._to_come[0].first_offset <= header.last_offset:
            self._producers.add(heapq.heappop(self._to_come).producer_id)
        if header.producer_id not in self._producers:
            return False
        if header.is_control:
            if _is_abort(batch):
                self._producers.remove(header.producer_id)
            return False
        return header.is_transactional


def _is_abort(batch: bytes) -> bool:
    (marker,) = decode_batch(batch)
    if marker.key is None or len(marker.key) < _MARKER_KEY.size:
        raise CorruptBatchError(f"offset {marker.offset}: a control record without its type")
    _, kind = _MARKER_KEY.unpack_from(marker.key)
    return bool(kind == _ABORT_MARKER)


def _texts(batch: bytes, position: int) -> list[tuple[int, str]]:
    shown = []
    try:
        plain = inflate_batch(batch, _INFLATED_MAX_BYTES)
    except (OverflowError, ValueError) as error:
        raise CorruptBatchError(f"records cannot be inflated: {error}") from error
    for record in decode_batch(plain):
        if record.offset < position:
            continue
        if record.value is None:
            raise CorruptBatchError(f"offset {record.offset}: a record without a value")
        try:
            shown.append((record.offset, bytes(record.value).decode()))
        except UnicodeDecodeError as error:
            raise CorruptBatchError(f"offset {record.offset}: {error}") from error
    return shown
