"""Record batches as a client sends and reads them: texts in, texts with their offsets out.

What a reader of committed records shows is its own work (KIP-98). A broker returns everything below
the last stable offset, and names the aborted transactions among it. A producer's batches belong to
an aborted one from its first offset on, up to the abort marker of that producer, as in Kafka's
`CompletedFetch`: by offset, and by producer id alone.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Sequence

from cluster.node.log.batch.records import (
    NOBODY,
    BatchHeader,
    CorruptBatchError,
    Record,
    Sequenced,
    batch_size_bytes,
    check_batch,
    decode_batch,
    encode_batch,
)
from cluster.node.protocol.data_messages import AbortedTransaction
from cluster.values import valueclass

NO_EPOCH = -1
"""The leader fills in its own."""
_MARKER_KEY = struct.Struct(">hh")
_ABORT_MARKER = 0
"""Version and type of a control record that ends a transaction (`ControlRecordType.java`)."""


@valueclass
class Read:
    """What a Fetch showed of one log."""

    records: tuple[tuple[int, str], ...]
    """(offset, value), from the offset that was asked for."""
    next_offset: int
    """The position afterwards: behind the last batch, also where that is not to be shown."""


def batch_of(values: Sequence[str], timestamp_ms: int, sequenced: Sequenced = NOBODY) -> bytes:
    """Encode one batch, which is appended whole or not at all."""
    records = [Record(value.encode()) for value in values]
    return encode_batch(0, NO_EPOCH, records, timestamp_ms, sequenced=sequenced)


def read_batches(data: bytes, position: int, aborted: Sequence[AbortedTransaction] = ()) -> Read:
    """Decode what a Fetch from `position` returned, control batches left out.

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
    return Read(tuple(records), max(position, next_offset))


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
    for record in decode_batch(batch):
        if record.offset < position:
            continue
        if record.value is None:
            raise CorruptBatchError(f"offset {record.offset}: a record without a value")
        try:
            shown.append((record.offset, bytes(record.value).decode()))
        except UnicodeDecodeError as error:
            raise CorruptBatchError(f"offset {record.offset}: {error}") from error
    return shown
