"""Shows what simulated nodes do in their own time to the invariants of upkeep.

`UpkeepWatch(world, watcher)` looks at each node that runs, every few seconds of the world: at its
checkpoints of high watermarks, at its metadata log and snapshots, and at the requests that wait
there. It looks at no file that waits for a disk. A node that was stopped does what is due right
after: so what is late has to be so at two looks that both find it at work. A node whose clock has
run at two rates is looked at no more: a timer that it set at the slower one comes late by the
other, by any factor.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final

from checkers.invariants.upkeep import CHECKPOINT_MS, SLACK_MS
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.links import RAFT_MESSAGES
from cluster.backends.sim.world import SimWorld
from cluster.node.assembly import Node
from cluster.node.broker.replication.replica_manager import ReplicaManager
from cluster.node.broker.serving.fetch import _Delayed
from cluster.node.errors import ErrorCode
from cluster.node.kraft import messages
from cluster.node.kraft.snapshot_store import SnapshotStore
from cluster.node.log.data.data_log import DataLog
from cluster.node.log.data.directory_checkpoints import HIGH_WATERMARK_FILE
from cluster.node.log.data.log_directory import LogDirectory
from cluster.node.log.metadata.snapshot import SUFFIX, parse_snapshot_name
from cluster.node.log.storage.checkpoint import TopicPartition, decode_offsets
from cluster.node.protocol.data_messages import (
    DeleteRecordsRequest,
    FetchRequest,
    ProduceRequest,
    wants_response,
)
from harness.sim.sights.folders import disk_of, replicas_of

_OFTEN_MS: Final = 1_000.0
_SELDOM: Final = round((CHECKPOINT_MS + SLACK_MS) / _OFTEN_MS)
"""At every so manieth look, also what takes longer to look at."""
_GROWN_MAX_BYTES: Final = 16 << 20
"""No world makes a log as large."""
_SHORTER: Final = ("log-start", "truncate", "truncate-fully")
_CUT: Final = ("replica-truncated", "replica-begun")
_WAITS_MS: Final[dict[type, Callable[[Any], float]]] = {
    FetchRequest: lambda request: request.max_wait_ms,
    ProduceRequest: lambda request: request.timeout_ms,
    DeleteRecordsRequest: lambda request: request.timeout / dt.timedelta(milliseconds=1),
    messages.FetchRequest: lambda request: request.max_wait_ms,
    messages.VoteRequest: lambda _: 0.0,
    messages.BeginQuorumEpochRequest: lambda _: 0.0,
    messages.EndQuorumEpochRequest: lambda _: 0.0,
    messages.FetchSnapshotRequest: lambda _: 0.0,
    messages.UpdateVoterRequest: lambda _: 0.0,
}
"""Requests of a broker's data and of the quorum, and for how long each says that it may wait."""


@dataclasses.dataclass(slots=True)
class _Seen:
    """What was seen of a node's incarnation."""

    incarnation: int
    marks: dict[DataLog, tuple[float, int, int]] = dataclasses.field(default_factory=dict)
    """By log of a replica: since when it has had at least this high watermark, by its clock,
    and how many looks at its checkpoint lacked it since."""
    large: tuple[float, int] | None = None
    """Since when it has had too large a log, and how many looks."""
    left: set[str] = dataclasses.field(default_factory=set)
    """Files of snapshots that nobody used at the last look."""
    asked: dict[int, tuple[Any, float, int | None]] = dataclasses.field(default_factory=dict)
    """By identity: requests that it has not answered, since when, and what a leader of the quorum
    had committed then."""
    late: set[int] = dataclasses.field(default_factory=set)
    """Requests that were late at the last look."""


class UpkeepWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher
        self._seen: dict[str, _Seen] = {}
        for kind in _WAITS_MS:
            world.mesh.on_serve[kind].append(self._hear)
            world.mesh.on_reply[kind].append(self._forget)
        world.observe(self._observe, *_SHORTER, *_CUT, "replica-moving")
        world.scheduler.call_later(_OFTEN_MS, self._look)
        self._looks = 0

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        seen = self._of(process)
        if event in _SHORTER:
            seen.large = None
            self._look_at_voters(process)
        elif event in _CUT:
            seen.marks = {}
        else:
            self._look_at_move(process, fields)

    def _hear(self, name: str, request: object) -> None:
        process = self._world.nodes[name].process
        if process is None or process.node is None:
            return
        if process.node._held is not None and type(request) not in RAFT_MESSAGES:
            return  # what comes before it serves clients is kept until it does
        if wants_response(request):
            mark = _high_watermark(process.node)
            asked = request, process.monotonic_ms(), mark
            self._of(process).asked.setdefault(id(request), asked)  # it may come twice

    def _forget(self, name: str, request: Any, response: Any) -> None:
        """Show a Fetch whose answer brings nothing that it may not have waited for."""
        process = self._world.nodes[name].process
        if process is None or process.node is None:
            return
        _, since_ms, mark = self._of(process).asked.pop(id(request), (None, None, None))
        if since_ms is None or not process.keeps_time:
            return
        most_ms, is_idle = math.inf, False
        if isinstance(request, messages.FetchRequest):
            # All that wait are answered as the high watermark moves, whatever they know.
            most_ms = process.node.raft._core.config.fetch_timeout_ms
            is_idle = mark == response.high_watermark and _is_idle(request, response)
        elif isinstance(request, FetchRequest) and process.node.replicas is not None:
            is_idle = _brings_nothing(process.node.replicas, request, response)
        if is_idle:
            for_ms = process.monotonic_ms() - since_ms
            shown = {"for_ms": for_ms, "waits_ms": min(request.max_wait_ms, most_ms)}
            self._watcher.take(process.name, "fetch-idle", shown)

    def _look(self) -> None:
        self._looks += 1
        for host, process, node in self._world.running():
            if not process.keeps_time:
                continue
            self._look_at_requests(process, node)
            if node.replicas is not None:
                self._look_at_watches(process, node.replicas)
                self._look_at_logs(process, node.replicas)
            is_still = host.disk.is_idle and not host.disk.detached
            if is_still and not node.raft._halted:
                self._look_at_size(process, node)
            if self._looks % _SELDOM:
                continue
            if is_still:
                self._look_at_files(process, node)
            if node.replicas is not None:
                self._look_at_checkpoints(process, node.replicas)
        self._world.scheduler.call_later(_OFTEN_MS, self._look)

    def _of(self, process: Incarnation) -> _Seen:
        seen = self._seen.get(process.name)
        if seen is None or seen.incarnation != process.incarnation:
            seen = self._seen[process.name] = _Seen(process.incarnation)
        return seen

    def _look_at_checkpoints(self, process: Incarnation, manager: ReplicaManager) -> None:
        if manager._is_stopped:
            return
        look, now_ms = self._of(process), process.monotonic_ms()
        known, look.marks = look.marks, {}
        saved = {directory.path: _checkpoint(directory) for directory in manager.logs.online}
        for replica in manager.replicas():
            mark = replica.partition.high_watermark
            directory = manager.logs.holder(replica.at) if mark else None
            if directory is None:
                continue
            key = directory.logs[replica.at]  # another one, once it was removed and came back
            marks = saved.get(directory.path)
            since_ms, before, looks = known.get(key, (now_ms, mark, 0))
            if marks is None or key not in known:
                look.marks[key] = now_ms, mark, 0
                continue
            has = marks.get(replica.at, 0)
            if has >= min(before, mark):
                look.marks[key] = now_ms, mark, 0
                continue
            look.marks[key] = since_ms, min(before, mark), looks + 1
            if looks:
                shown = {"name": str(replica.at), "mark": min(before, mark), "saved": has}
                shown |= {"for_ms": now_ms - since_ms}
                self._watcher.take(process.name, "checkpoint-seen", shown)

    def _look_at_requests(self, process: Incarnation, node: Node) -> None:
        seen, now_ms = self._of(process), process.monotonic_ms()
        before, seen.late = seen.late, set()
        if node.raft._halted or node.raft._quorum.busy:
            return
        if node.replicas is not None and node.replicas._is_stopped:
            return
        for number, (request, since_ms, _) in seen.asked.items():
            for_ms, waits_ms = now_ms - since_ms, _WAITS_MS[type(request)](request)
            if for_ms > waits_ms:
                seen.late.add(number)
            if number in seen.late & before:
                shown = {
                    "request": type(request).__name__.removesuffix("Request"),
                    "for_ms": for_ms,
                    "waits_ms": waits_ms,
                }
                self._watcher.take(process.name, "request-late", shown)

    def _look_at_watches(self, process: Incarnation, manager: ReplicaManager) -> None:
        """Show how much is watched for Fetch sessions, and requests, that there are no more."""
        sessions, fetches, others = manager.fetch_sessions, manager.fetches, manager.delayed
        fetching = {
            each.operation._fetching._session
            for each in fetches._waiting
            if isinstance(each.operation, _Delayed)
        }
        counts = {
            "Fetch session": _count(sessions._watchers, {*sessions._sessions.values(), *fetching}),
            "Fetch": _count(fetches._watchers, fetches._waiting),
            "Produce or DeleteRecords": _count(others._watchers, others._waiting),
        }
        for what, count in counts.items():
            if count:
                self._watcher.take(process.name, "watch-left", {"what": what, "count": count})

    def _look_at_logs(self, process: Incarnation, manager: ReplicaManager) -> None:
        """Show each partition that has logs in several directories."""
        for log, logs in (("log", "logs"), ("future log", "future_logs")):
            holders: dict[TopicPartition, list[str]] = defaultdict(list)
            for directory in manager.logs.online:
                for at in getattr(directory, logs) if directory.is_open else ():
                    holders[at].append(directory.path)
            for at, paths in holders.items():
                if len(paths) > 1:
                    shown = {"name": str(at), "log": log, "directories": paths}
                    self._watcher.take(process.name, "logs-seen", shown)

    def _look_at_files(self, process: Incarnation, node: Node) -> None:
        """Show files that nobody goes on with: all but a download wait for nothing but the disk."""
        store, now_ms = node.raft._core.log.snapshots, process.monotonic_ms()
        loading = node.raft._core.download
        used = set() if loading is None else {loading.path}
        late_ms = now_ms - node.raft._core.config.log_clean_interval_ms - 2 * CHECKPOINT_MS
        used |= {path for due_ms, path in store._deleted if due_ms >= late_ms}
        left = {path for path in _strays(store) if path not in used}
        seen = self._of(process)
        for path in sorted(left & seen.left):
            self._watcher.take(process.name, "file-left", {"path": path})
        seen.left = left

    def _look_at_size(self, process: Incarnation, node: Node) -> None:
        seen, log, config = self._of(process), node.raft._core.log, node.raft._core.config
        ids = log.snapshots.ids
        is_vast = config.metadata_max_retention_bytes > _GROWN_MAX_BYTES
        if is_vast or len(ids) < 2 or not log.start_offset < ids[1].offset <= log.high_watermark:
            seen.large = None
            return
        size_bytes = log.size_bytes + sum(map(log.snapshots.size_bytes, ids))
        if size_bytes <= config.metadata_max_retention_bytes:
            seen.large = None
            return
        now_ms = process.monotonic_ms()
        since_ms, looks = seen.large or (now_ms, 0)
        seen.large = since_ms, looks + 1
        if looks > 1:
            shown = {
                "for_ms": now_ms - since_ms,
                "interval_ms": config.log_clean_interval_ms,
                "size_bytes": size_bytes,
                "kept_bytes": config.metadata_max_retention_bytes,
            }
            self._watcher.take(process.name, "cleaning-seen", shown)

    def _look_at_voters(self, process: Incarnation) -> None:
        """Show by which voters and kraft.version a node goes whose log has become shorter."""
        if process.node is not None:
            log = process.node.raft._core.log
            last = log.control._versions.last()
            in_force = {"voters": log.control.voters_offset} | (
                {} if last is None else {"kraft.version": last[0]}
            )
            shown = {"in_force": in_force, "end_offset": log.end_offset}
            self._watcher.take(process.name, "log-cut", shown)

    def _look_at_move(self, process: Incarnation, fields: TraceFields) -> None:
        """Look for the folder of a move that begins, or for work of the disk that will make it."""
        manager = replicas_of(process)
        assert manager is not None, "it has replicas"
        at = TopicPartition(fields["topic"], fields["partition"])
        for directory in manager.logs.online:
            if directory.path != fields["to_dir"] or at not in directory.future_logs:
                continue
            disk = disk_of(directory)
            is_there = not disk.is_idle or disk.exists(directory.future_logs[at].directory)
            shown = {"name": str(at), "to_dir": directory.path, "is_there": is_there}
            self._watcher.take(process.name, "move-seen", shown)


def _high_watermark(node: Node) -> int | None:
    leader = node.raft._core.leader
    return None if leader is None else leader.high_watermark


def _is_idle(request: messages.FetchRequest, response: messages.FetchResponse) -> bool:
    """Whether an answer of the quorum's leader has no news."""
    has_news = response.records or response.diverging_epoch or response.snapshot_id
    is_right = response.error is response.top_level_error is ErrorCode.none
    return is_right and not has_news and response.high_watermark <= request.high_watermark


def _brings_nothing(manager: ReplicaManager, request: FetchRequest, response: Any) -> bool:
    """Whether an answer of a leader of partitions, some of which were asked for, has no news."""
    asked = {(row.topic, row.index): row for row in request.partitions}
    if response.session_id:
        session = manager.fetch_sessions._sessions.get(response.session_id)
        asked |= {} if session is None else session.partitions
    if response.error is not ErrorCode.none or manager._is_stopped or not asked:
        return False
    return all(
        row.error is ErrorCode.none
        and not (row.records or row.diverging)
        and (row.topic, row.index) in asked
        and row.high_watermark <= asked[row.topic, row.index].high_watermark
        for row in response.partitions
    )


def _count(watchers: Mapping[Any, Iterable[object]], there: Container[object]) -> int:
    """Count what watches something and is not there."""
    return len({each for found in watchers.values() for each in found if each not in there})


def _checkpoint(directory: LogDirectory) -> dict[TopicPartition, int] | None:
    """Return the checkpoint of high watermarks; None while its disk, or a start, goes on."""
    disk = disk_of(directory)
    if not _is_still(directory):
        return None
    if not disk.exists(HIGH_WATERMARK_FILE):
        return {}
    return decode_offsets(disk.read(HIGH_WATERMARK_FILE))


def _is_still(directory: LogDirectory) -> bool:
    disk = disk_of(directory)
    return directory.is_open and disk.is_idle and not disk.detached


def _strays(store: SnapshotStore) -> list[str]:
    """Return the files of snapshots that are none yet, or none any more, or that it lacks."""
    known = {*store.ids, *store._writing}
    found = []
    for name in store._disk.list_directory(store._directory):
        parsed = parse_snapshot_name(name)
        if parsed is not None and (parsed[1] != SUFFIX or parsed[0] not in known):
            found.append(f"{store._directory}/{name}")
    return found
