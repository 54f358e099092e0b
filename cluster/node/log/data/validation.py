"""What a leader takes from a client: one intact batch of plausible records.

After `LogValidator` and `UnifiedLog.analyzeAndValidateRecords`, for batches of magic 2, which is
all that Produce of version 3 and later carries. A compressed batch is inflated to look at its
records, and passed on as it came. Two differences to Kafka, both stricter: records whose offsets
within the batch are not 0, 1, 2, ... are refused where Kafka rewrites a compressed batch and takes
any other as it is; and records that inflate to more than `INFLATED_MAX_BYTES`, or are more than
`RECORDS_MAX`, are refused.
"""

from __future__ import annotations

from operator import attrgetter

from aiokafka.record.default_records import DefaultRecord

from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import (
    MAGIC,
    NO_PRODUCER,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatchError,
    batch_size_bytes,
    check_crc,
    decode_batch,
    inflate_batch,
    parse_header,
    with_max_timestamp,
)
from cluster.node.log.data.data_config import AppendError, DataLogConfig

INFLATED_MAX_BYTES = 64 << 20
RECORDS_MAX = 1_000_000
"""Of one batch: empty ones take seven bytes each, inflated, and a second of the node's task."""
_MAGIC_POSITION = 16
_OFFSET_OF = attrgetter("offset")
_TIMESTAMP_OF = attrgetter("timestamp")


def validate(records: bytes, config: DataLogConfig, now_ms: int) -> tuple[BatchHeader, bytes]:
    """Check what a client wants to append, and set its timestamps as the topic wants them.

    Returns header and bytes of the batch, which still has the offsets of the client. Raises
    AppendError.
    """
    header = _only_batch(records, config.max_message_bytes)
    _check_header(header)
    max_timestamp_ms = _check_records(header, records, config, now_ms)
    if config.log_append_time:
        max_timestamp_ms = now_ms
    same_type = header.is_log_append_time == config.log_append_time
    if not same_type or header.max_timestamp_ms != max_timestamp_ms:
        records = with_max_timestamp(
            records, max_timestamp_ms, log_append_time=config.log_append_time
        )
        header = parse_header(records)
    return header, records


def _only_batch(records: bytes, max_message_bytes: int) -> BatchHeader:
    """Check framing, size and CRC."""
    try:
        size_bytes = batch_size_bytes(records)
        if size_bytes is None or size_bytes > len(records):
            raise _invalid("Produce requests must contain one whole record batch per partition")
        if size_bytes < len(records):
            raise _invalid("Produce requests must contain exactly one record batch per partition")
        if records[_MAGIC_POSITION] != MAGIC:
            raise _invalid(f"Produce requests must have magic {MAGIC}")
        header = parse_header(records)
        if header.base_offset != 0:
            raise _invalid(f"The baseOffset of the record batch is {header.base_offset}, not 0")
        if size_bytes > max_message_bytes:
            raise AppendError(
                ErrorCode.message_too_large,
                f"The record batch is {size_bytes} bytes, the limit {max_message_bytes}",
            )
        check_crc(records, header)
    except CorruptBatchError as error:
        raise AppendError(ErrorCode.corrupt_message, str(error)) from error
    return header


def _check_header(header: BatchHeader) -> None:
    if not 0 < header.record_count == header.last_offset_delta + 1:
        raise _invalid(
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of "
            f"records {header.record_count}"
        )
    if header.record_count > RECORDS_MAX:
        raise AppendError(
            ErrorCode.message_too_large,
            f"The batch has {header.record_count} records, the limit is {RECORDS_MAX}",
        )
    if header.is_control:
        raise _invalid("Clients are not allowed to write control records")
    if header.producer_id != NO_PRODUCER and header.base_sequence < 0:
        raise _invalid(f"Invalid sequence number {header.base_sequence} with a producer id")
    if header.is_transactional:  # no coordinator has verified it
        raise AppendError(
            ErrorCode.invalid_txn_state, "Record was not part of an ongoing transaction"
        )


def _check_records(header: BatchHeader, batch: bytes, config: DataLogConfig, now_ms: int) -> int:
    """Look at each record; returns the largest timestamp."""
    records = _decode(header, batch)
    for index, offset in enumerate(map(_OFFSET_OF, records)):
        if offset != index:
            raise _invalid(f"Record {index} has offset {offset} within its batch")
    timestamps: list[int] = list(map(_TIMESTAMP_OF, records))
    latest_ms = max(timestamps)
    max_timestamp_ms = max(NO_TIMESTAMP, latest_ms)
    if not config.compact and _are_right_times(header, min(timestamps), latest_ms, config, now_ms):
        return max_timestamp_ms
    for record in records:
        if config.compact and record.key is None:
            no_key = "Compacted topic cannot accept message without key"
            raise _rejection(ErrorCode.invalid_record, no_key)
        reason = _wrong_time(header, record.timestamp, config, now_ms)
        if reason is not None:
            raise _rejection(ErrorCode.invalid_timestamp, reason)
    return max_timestamp_ms


def _decode(header: BatchHeader, batch: bytes) -> list[DefaultRecord]:
    try:
        records = decode_batch(inflate_batch(batch, INFLATED_MAX_BYTES))
    except CorruptBatchError as error:
        raise _invalid(str(error)) from error
    except OverflowError as error:
        raise AppendError(ErrorCode.message_too_large, f"The batch inflates to {error}") from error
    except ValueError as error:
        raise AppendError(ErrorCode.unknown_server_error, str(error)) from error
    if len(records) != header.record_count:
        raise _invalid(f"{len(records)} records, the batch announces {header.record_count}")
    return records


def _are_right_times(
    header: BatchHeader, earliest_ms: int, latest_ms: int, config: DataLogConfig, now_ms: int
) -> bool:
    """Whether no time can be wrong: without a look at each, as a batch may have thousands."""
    if header.is_log_append_time:
        return False
    if config.log_append_time:
        return True
    first_ms, last_ms = _time_range(config, now_ms)
    return first_ms <= earliest_ms and latest_ms <= last_ms


def _time_range(config: DataLogConfig, now_ms: int) -> tuple[int, int]:
    return (
        now_ms - config.message_timestamp_before_max_ms,
        now_ms + config.message_timestamp_after_max_ms,
    )


def _wrong_time(
    header: BatchHeader, timestamp_ms: int, config: DataLogConfig, now_ms: int
) -> str | None:
    if not config.log_append_time and timestamp_ms != NO_TIMESTAMP:
        first_ms, last_ms = _time_range(config, now_ms)
        if not first_ms <= timestamp_ms <= last_ms:
            return (
                f"Timestamp {timestamp_ms} is out of range. The timestamp should be within "
                f"[{first_ms}, {last_ms}]"
            )
    elif header.is_log_append_time:
        return "Producer should not set timestamp type to LogAppendTime"
    return None


def _rejection(error: ErrorCode, reason: str) -> AppendError:
    return AppendError(error, f"One or more records have been rejected due to {reason}")


def _invalid(message: str) -> AppendError:
    return AppendError(ErrorCode.invalid_record, message)
