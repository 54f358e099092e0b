"""Settings of a log of data, by Kafka's names for topics and brokers, and its errors."""

from __future__ import annotations

from cluster.node.errors import ErrorCode
from cluster.values import valueclass

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


@valueclass(kw_only=True)
class DataLogConfig:
    """A topic's settings, as they apply to the logs of its partitions; -1 means no bound."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    flush_messages: int = INT64_MAX
    """After how many records the log is synced before they are acknowledged."""
    flush_ms: int = INT64_MAX
    """How long after an append the log is synced, at the latest."""
    max_message_bytes: int = 1_048_588
    """Largest batch, as it comes."""
    message_timestamp_type: str = "CreateTime"
    """Or "LogAppendTime"."""
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = _HOUR_MS
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    cleanup_policy: tuple[str, ...] = ("delete",)
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = _DAY_MS
    cache_bytes: int = 1 << 20
    """Batches that are kept in memory; what the kernel does not have yet comes on top."""

    @property
    def log_append_time(self) -> bool:
        """Whether records carry the time of their append."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def compact(self) -> bool:
        """Whether records need keys, and offsets may be missing, which else is damage."""
        return "compact" in self.cleanup_policy


class AppendError(Exception):
    """Records were refused, and nothing was appended."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class OffsetOutOfRangeError(Exception):
    """The offset lies below the log start or above the log end (OFFSET_OUT_OF_RANGE)."""


class StorageError(Exception):
    """The folder of the log is offline (KAFKA_STORAGE_ERROR)."""


class UnexpectedAppendOffsetError(Exception):
    """A follower got batches that begin below its log end, or leave out offsets.

    With an empty log the follower may begin anew at `first_offset`: the leader's log may begin
    within a batch.
    """

    def __init__(self, first_offset: int, last_offset: int, end_offset: int) -> None:
        super().__init__(f"batches {first_offset}..{last_offset}, the log ends at {end_offset}")
        self.first_offset = first_offset
        self.last_offset = last_offset
