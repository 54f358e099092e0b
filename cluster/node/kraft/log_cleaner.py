"""When old snapshots go, and the log below the next one with them (RaftMetadataLogCleanerManager).

Once a minute, and only while there are at least two snapshots: while log and snapshots together are
larger than `metadata.max.retention.bytes`, or the oldest snapshot's last record is older than
`metadata.max.retention.ms`, the oldest goes; -1 is no bound. The last one never does. Its file is
removed a minute later (MetadataLogConfig.INTERNAL_DELETE_DELAY_MILLIS), so by the next cleaning.
Nothing else may shorten a metadata log: what no snapshot holds would be lost (KAFKA-14238).
"""

from __future__ import annotations

from cluster.node.kraft.core import RaftCore
from cluster.node.log.types import OffsetAndEpoch


class LogCleaner:
    """Polled by the raft client."""

    def __init__(self, core: RaftCore) -> None:
        self._core = core
        self._log = core.log
        self._due_ms = core.clock.monotonic_ms() + core.config.log_clean_interval_ms

    def poll(self, now_ms: float) -> float:
        """Clean when it is time; returns when it will be again."""
        if now_ms >= self._due_ms:
            self._log.snapshots.remove_deleted(now_ms)
            self._due_ms = now_ms + self._core.config.log_clean_interval_ms
            self.clean(self._due_ms)
        return self._due_ms

    def clean(self, until_ms: float) -> None:
        """Delete as many old snapshots as the settings ask for; their files stay until then."""
        while len(self._log.snapshots.ids) >= 2:
            oldest, following = self._log.snapshots.ids[:2]
            if not (self._is_too_large() or self._is_too_old(oldest)):
                return
            if not self._log.delete_before_snapshot(following, until_ms):
                return
            self._core.trace("log-start", offset=following.offset, epoch=following.epoch)

    def _is_too_large(self) -> bool:
        snapshots = self._log.snapshots
        held_bytes = sum(snapshots.size_bytes(snapshot_id) for snapshot_id in snapshots.ids)
        most_bytes = self._core.config.metadata_max_retention_bytes
        return 0 <= most_bytes < self._log.size_bytes + held_bytes

    def _is_too_old(self, snapshot_id: OffsetAndEpoch) -> bool:
        age_ms = self._core.clock.wall_ms() - self._log.snapshots.timestamp_ms(snapshot_id)
        return 0 <= self._core.config.metadata_max_retention_ms < age_ms
