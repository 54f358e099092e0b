"""Record batches, version 2 (KIP-98): the unit of the log, of replication and of atomicity.

A batch is 61 bytes of header and then its records. Its first 12 bytes, base offset and length,
frame it; the CRC-32C covers everything from `attributes` on. Base offset and partition leader
epoch lie outside the checksum, so a batch can be given its place in a log without a new one, and a
replica passes the leader's bytes on untouched. The price: a damaged offset or epoch is not seen by
the checksum. `cluster.node.log.storage.recovery` sees it by contiguity and by the leader-epoch
file.

Records are encoded and decoded by aiokafka's record classes (Cython where the wheel has it).
Source: Kafka documentation, "Record Batch"; `DefaultRecordBatch.java`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from aiokafka.errors import KafkaError
from aiokafka.record.default_records import (
    DefaultRecord,
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)
from crc32c import crc32c

from cluster.node.log.batch.compression import NO_COMPRESSION, DamagedRecordsError, inflate
from cluster.values import valueclass

MAGIC = 2
HEADER_BYTES = 61
PREFIX_BYTES = 12
"""Base offset and length, which every reader needs before anything else."""
_LENGTH_MIN = HEADER_BYTES - PREFIX_BYTES
COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
NO_TIMESTAMP = -1
SEQUENCE_MAX = 2**31 - 1
NO_PRODUCER = -1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qi")
_CRC_POSITION = 17
_CRC = struct.Struct(">I")
_ATTRIBUTES_POSITION = 21
_ATTRIBUTES = struct.Struct(">h")
_OFFSET = struct.Struct(">q")
_EPOCH_POSITION = 12
_EPOCH = struct.Struct(">i")
_MAX_TIMESTAMP_POSITION = 35
_MAX_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_SIZE_MAX_BYTES = 2**31 - 1


class CorruptBatchError(Exception):
    """The bytes are not a sequence of whole, intact version 2 batches."""


class CutOffBatchError(CorruptBatchError):
    """The bytes end within a batch."""


@valueclass
class Record:
    """Key and value of one record; a metadata record has no key."""

    value: bytes | None
    key: bytes | None = None


@valueclass
class Sequenced:
    """Which idempotent producer sends a batch, and the sequence of its first record (KIP-98)."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool = False
    """Whether it belongs to the producer's transaction."""


NOBODY = Sequenced(NO_PRODUCER, NO_PRODUCER, NO_PRODUCER)
"""Of a batch without sequences."""


class BatchHeader(NamedTuple):
    """A batch's header by Kafka's names, in order. A tuple: reading a log makes many."""

    base_offset: int
    length: int
    """Of what follows the 12 byte prefix."""
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, with its prefix."""
        return self.length + PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset of the record that follows this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_control(self) -> bool:
        """Whether its records are control records (see `cluster.node.log.batch.control`)."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_log_append_time(self) -> bool:
        """Whether its records carry the time of their append, which is the maximum timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; 0 follows `SEQUENCE_MAX`. -1 without sequences."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


_header_of = partial(tuple.__new__, BatchHeader)
"""Makes a header of what was unpacked; `BatchHeader._make` would count the fields once more."""


def encode_batch(
    base_offset: int,
    epoch: int,
    records: Sequence[Record],
    timestamp_ms: int,
    *,
    control: bool = False,
    sequenced: Sequenced = NOBODY,
) -> bytes:
    """Encode one uncompressed batch; every record carries the append time `timestamp_ms`.

    Raises ValueError when there are no records: an empty batch would take no offset.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    builder = DefaultRecordBatchBuilder(
        MAGIC,
        0,
        int(sequenced.transactional),
        sequenced.producer_id,
        sequenced.producer_epoch,
        sequenced.base_sequence,
        _SIZE_MAX_BYTES,
    )
    for delta, record in enumerate(records):
        builder.append(delta, timestamp_ms, record.key, record.value, [])
    batch = builder.build()
    if control:  # the builder is a client's, and clients cannot write control batches
        _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_POSITION, CONTROL_BIT)
        _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[_ATTRIBUTES_POSITION:]))
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, _EPOCH_POSITION, epoch)
    return bytes(batch)


def with_base_offset(batch: bytes, base_offset: int) -> bytes:
    """Give the same batch another base offset; its CRC stays valid."""
    return _OFFSET.pack(base_offset) + batch[_OFFSET.size :]


def with_place(batch: bytes, base_offset: int, epoch: int) -> bytes:
    """Give the same batch its place in a log: base offset and epoch. Its CRC stays valid."""
    length = batch[_OFFSET.size : PREFIX_BYTES]
    rest = batch[_EPOCH_POSITION + _EPOCH.size :]
    return b"".join((_OFFSET.pack(base_offset), length, _EPOCH.pack(epoch), rest))


def with_max_timestamp(batch: bytes, timestamp_ms: int, *, log_append_time: bool) -> bytes:
    """Give the same batch another maximum timestamp and timestamp type, and so another CRC."""
    changed = bytearray(batch)
    attributes = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_POSITION)[0] & ~LOG_APPEND_TIME_BIT
    attributes |= LOG_APPEND_TIME_BIT * log_append_time
    _ATTRIBUTES.pack_into(changed, _ATTRIBUTES_POSITION, attributes)
    _MAX_TIMESTAMP.pack_into(changed, _MAX_TIMESTAMP_POSITION, timestamp_ms)
    _CRC.pack_into(changed, _CRC_POSITION, crc32c(memoryview(changed)[_ATTRIBUTES_POSITION:]))
    return bytes(changed)


def inflate_batch(batch: bytes, max_bytes: int) -> bytes:
    """Return the same batch without compression, its CRC not valid.

    Raises CorruptBatchError when the records cannot be inflated, OverflowError when they take more
    than `max_bytes`, ValueError when there is no such codec.
    """
    attributes = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_POSITION)[0]
    codec = attributes & COMPRESSION_MASK
    if codec == NO_COMPRESSION:
        return batch
    try:
        records = inflate(codec, batch[HEADER_BYTES:], max_bytes)
    except DamagedRecordsError as error:
        raise CorruptBatchError(f"records cannot be inflated: {error}") from error
    header = bytearray(batch[:HEADER_BYTES])
    _ATTRIBUTES.pack_into(header, _ATTRIBUTES_POSITION, attributes & ~COMPRESSION_MASK)
    _LENGTH.pack_into(header, _OFFSET.size, _LENGTH_MIN + len(records))
    return bytes(header) + records


def batch_size_bytes(data: bytes | memoryview, position: int = 0) -> int | None:
    """Size of the batch at `position`; None in a cut-off prefix. Raises CorruptBatchError."""
    if len(data) - position < PREFIX_BYTES:
        return None
    size_bytes = int(_PREFIX.unpack_from(data, position)[1]) + PREFIX_BYTES
    if size_bytes < HEADER_BYTES:
        raise CorruptBatchError(f"batch at byte {position}: length {size_bytes} is too small")
    return size_bytes


def parse_header(data: bytes | memoryview, position: int = 0) -> BatchHeader:
    """Parse the header at `position`, whatever its CRC. Raises CorruptBatchError."""
    if len(data) - position < HEADER_BYTES:
        raise CutOffBatchError(f"batch at byte {position}: header is cut off")
    header: BatchHeader = _header_of(_HEADER.unpack_from(data, position))
    if header.magic != MAGIC:
        raise CorruptBatchError(f"batch at byte {position}: magic is {header.magic}, not {MAGIC}")
    if header.length < _LENGTH_MIN:
        raise CorruptBatchError(f"batch at byte {position}: length {header.length} is too small")
    return header


def check_crc(data: bytes | memoryview, header: BatchHeader, position: int = 0) -> None:
    """Raise CorruptBatchError unless the whole batch at `position` has the CRC of its header."""
    end = position + header.length + PREFIX_BYTES
    crc = crc32c(memoryview(data)[position + _ATTRIBUTES_POSITION : end])
    if crc != header.crc:
        raise CorruptBatchError(
            f"batch at byte {position}: CRC is {crc:#010x}, header says {header.crc:#010x}"
        )


def check_batch(data: bytes | memoryview, position: int = 0, *, gaps: bool = False) -> BatchHeader:
    """Parse and verify the whole batch at `position`: length, CRC, offsets, record count.

    Raises CorruptBatchError. The offsets of a batch are dense, unless it may have `gaps`, as what
    was compacted has.
    """
    header = parse_header(data, position)
    end = position + header.length + PREFIX_BYTES
    if end > len(data):
        raise CorruptBatchError(
            f"batch at byte {position}: {header.size_bytes} bytes announced, "
            f"{len(data) - position} present"
        )
    check_crc(data, header, position)
    if header.base_offset < 0:  # an epoch may be -1: a producer leaves it to the leader
        raise CorruptBatchError(f"batch at byte {position}: negative base offset")
    count, offsets = header.record_count, header.last_offset_delta + 1
    if not (0 <= count <= offsets if gaps else 0 < count == offsets):
        raise CorruptBatchError(
            f"batch at byte {position}: {header.record_count} records for "
            f"{header.last_offset_delta + 1} offsets"
        )
    return header


def iter_batches(data: bytes, *, gaps: bool = False) -> Iterator[tuple[BatchHeader, bytes]]:
    """Split `data` into verified batches, each with its own bytes; `gaps` as of `check_batch`.

    Raises CorruptBatchError at the first batch that is damaged or cut off.
    """
    position = 0
    size_bytes = len(data)
    while position < size_bytes:
        header = check_batch(data, position, gaps=gaps)
        end = position + header.length + PREFIX_BYTES
        yield header, data[position:end]
        position = end


def split_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """As `iter_batches`, for what is or will be verified elsewhere: no CRC is computed.

    Raises CorruptBatchError where there is no header or not the whole batch.
    """
    position = 0
    size_bytes = len(data)
    while position < size_bytes:
        header = parse_header(data, position)
        end = position + header.length + PREFIX_BYTES
        if end > size_bytes:
            raise CutOffBatchError(f"batch at byte {position}: cut off")
        yield header, data[position:end]
        position = end


def decode_records(batch: bytes) -> list[Record]:
    """Decode the records of a batch of checked CRC. CorruptBatchError unless they fill it."""
    return [Record(record.value, record.key) for record in decode_batch(batch)]


def decode_values(batch: bytes) -> tuple[bytes, ...]:
    """Decode the values of a batch of metadata records. CorruptBatchError as `decode_records`."""
    values = tuple(record.value for record in decode_batch(batch))
    assert None not in values, "a metadata record without a value"
    return values


def decode_batch(batch: bytes) -> list[DefaultRecord]:
    """Decode the records of exactly one batch with all of their fields, its CRC checked before.

    Raises CorruptBatchError when the records do not fill the batch exactly.
    """
    try:
        return list(DefaultRecordBatch(batch))
    except (KafkaError, ValueError, IndexError, AssertionError) as error:
        raise CorruptBatchError(f"records cannot be decoded: {error}") from error
