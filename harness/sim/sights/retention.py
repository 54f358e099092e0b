"""Shows what retention deletes from the logs of simulated brokers, and what it leaves.

`RetentionWatch(world, watcher)` looks every second at the logs of each broker that runs and checks
often enough. A segment that a leader's log has no more was deleted by its own check, where nobody
asked it to delete records, and it has led since the last look; a follower's log begins where its
leader's does. What should have been deleted has to be there at several looks in sequence, by one
configuration and by a clock that no fault has set meanwhile. A node whose clock has run at two
rates is looked at no more: a timer that it set at the slower one comes late by the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from checkers.invariants.upkeep import is_over_retention
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld
from cluster.node.broker.replication.replica import Replica
from cluster.node.log.data.data_config import DataLogConfig
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.data.data_segment import DataSegment
from cluster.node.protocol.data_messages import DeleteRecordsRequest
from harness.sim.sights.folders import replicas_of

_LOOK_MS: Final = 1_000.0
_LOOKS_MIN: Final = 3
_INTERVAL_MAX_MS: Final = 250_000
"""Of the checks of a broker that is looked at: no world is as long as Kafka's own interval."""
_CUT: Final = ("replica-truncated", "replica-begun")


@dataclass(frozen=True, slots=True)
class _Held:
    """A log at one look."""

    config: DataLogConfig
    skew_ms: float
    """Of the wall clock of its host, which a fault may set."""
    leader_epoch: int | None
    """In which its broker leads; None: it does not."""
    start_offset: int
    segments: tuple[tuple[DataSegment, int], ...]
    """Each with where it ends."""
    due_ms: float | None = None
    """Since when its first segment has been due; None: it is not."""
    looks: int = 0
    """How many looks found it due."""


class RetentionWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher
        self._held: dict[tuple[str, int], dict[DataLog, _Held]] = {}
        """By node and incarnation: its logs at the last look."""
        self._asked: set[tuple[str, int]] = set()
        """Partitions of which records were to be deleted."""
        world.observe(self._observe, *_CUT)
        world.mesh.on_serve[DeleteRecordsRequest].append(self._hear)
        world.scheduler.call_later(_LOOK_MS, self._look)

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        del event, fields
        self._held.pop((process.name, process.incarnation), None)

    def _hear(self, name: str, request: Any) -> None:
        del name
        for topic in request.topics:
            self._asked |= {(topic.name, int(each.partition_index)) for each in topic.partitions}

    def _look(self) -> None:
        for host, process, node in self._world.running():
            manager = node.replicas
            if manager is None or manager._is_stopped:
                continue
            interval_ms = manager.config.retention_check_interval_ms
            at = process.name, process.incarnation
            if interval_ms > _INTERVAL_MAX_MS or not process.keeps_time:
                continue
            before = self._held.get(at, {})
            now = self._held[at] = {}
            for replica in manager.replicas():
                log = replica.log
                if log.exists and not log._offline:
                    known, held = before.get(log), _hold(replica, host.clock.skew_ms)
                    if known and (known.config, known.skew_ms) != (held.config, held.skew_ms):
                        known = None
                    wall_ms = host.clock.wall_ms()
                    if known is not None and known.leader_epoch is not None:
                        self._look_at_deletions(process, replica, known, held, wall_ms)
                    now[log] = self._look_at_first(process, replica, known, held, wall_ms)
        self._world.scheduler.call_later(_LOOK_MS, self._look)

    def _look_at_deletions(
        self, process: Incarnation, replica: Replica, known: _Held, held: _Held, wall_ms: int
    ) -> None:
        """Show what a leader has deleted since the last look."""
        if known.leader_epoch != held.leader_epoch or (replica.topic, replica.index) in self._asked:
            return
        kept = {segment.base_offset for segment, _ in held.segments}
        for segment, end in known.segments:
            if end > known.start_offset and segment.base_offset not in kept:
                shown = _fields(replica, segment, replica.log.size_bytes, wall_ms)
                self._watcher.take(process.name, "segment-deleted", shown)

    def _look_at_first(
        self,
        process: Incarnation,
        replica: Replica,
        known: _Held | None,
        held: _Held,
        wall_ms: int,
    ) -> _Held:
        """Show a first segment that was due at several looks; return how it is held now."""
        manager = replicas_of(process)
        assert manager is not None, "it is looked at"
        log, (first, end) = replica.log, held.segments[0]
        shown = _fields(replica, first, log.size_bytes - first.size_bytes, wall_ms)
        if not first.size_bytes or end > log.high_watermark or not is_over_retention(shown):
            return held
        now_ms = process.monotonic_ms()
        since_ms, looks = now_ms, 0
        if known is not None and known.due_ms is not None and known.segments[0][0] is first:
            since_ms, looks = known.due_ms, known.looks
        if looks + 1 >= _LOOKS_MIN:
            shown |= {
                "for_ms": now_ms - since_ms,
                "interval_ms": manager.config.retention_check_interval_ms,
            }
            self._watcher.take(process.name, "segment-due", shown)
        return replace(held, due_ms=since_ms, looks=looks + 1)


def _hold(replica: Replica, skew_ms: float) -> _Held:
    log, partition = replica.log, replica.partition
    ends = (*log.segment_offsets[1:], log.end_offset)
    return _Held(
        config=log.config,
        skew_ms=skew_ms,
        leader_epoch=partition.leader_epoch if partition.leads else None,
        start_offset=log.start_offset,
        segments=tuple(zip(log._segments, ends, strict=True)),
    )


def _fields(
    replica: Replica, segment: DataSegment, left_bytes: int, wall_ms: int
) -> dict[str, Any]:
    """Return what decides whether retention deletes a segment that leaves so much of its log."""
    latest_ms = segment.max_timestamp_ms if segment.times_known else -1
    return {
        "name": str(replica.at),
        "path": segment.path,
        "kept_bytes": replica.log.config.retention_bytes,
        "kept_ms": replica.log.config.retention_ms,
        "left_bytes": left_bytes,
        "age_ms": None if latest_ms < 0 else wall_ms - latest_ms,
    }
