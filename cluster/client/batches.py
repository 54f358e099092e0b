"""Record batches as a client sends and reads them: texts in, texts with their offsets out."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.node.log.batch.records import (
    NOBODY,
    CorruptBatchError,
    Record,
    Sequenced,
    batch_size_bytes,
    check_batch,
    decode_batch,
    encode_batch,
)
from cluster.values import valueclass

NO_EPOCH = -1
"""The leader fills in its own."""


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


def read_batches(data: bytes, position: int) -> Read:
    """Decode what a Fetch from `position` returned, control batches left out.

    The last batch may be cut off, as a broker cuts by bytes; the first may begin below `position`,
    which may stand within it. Raises CorruptBatchError; also for a record without a text, and for
    batches that are not in order.
    """
    records: list[tuple[int, str]] = []
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
        if not header.is_control:
            records += _texts(data[begin:end], position)
        begin = end
    return Read(tuple(records), max(position, next_offset))


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
