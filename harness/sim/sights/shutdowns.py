"""Shows how brokers of a simulated world end, and what they make of it when they start.

`ShutdownWatch(world, watcher)` looks at the marks of a clean shutdown: in log directories that are
in use, as a process ends, and as the next one registers, which says of which end it is.
"""

from __future__ import annotations

from typing import Any

from checkers.invariants.watcher import Watcher
from cluster.backends.sim.disk import MemoryDisk
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld
from cluster.node.broker.lifecycle.registration import NOT_REGISTERED_EPOCH
from cluster.node.log.data.directory_checkpoints import CLEAN_SHUTDOWN_FILE, NO_EPOCH
from cluster.node.protocol.messages import BrokerRegistrationRequest
from harness.sim.sights.folders import disk_of, replicas_of


class ShutdownWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._nodes = world.nodes
        self._watcher = watcher
        self._ends: dict[str, tuple[int, bool]] = {}
        """By broker that was registered: the epoch of its last end, -1 where that was not in order,
        and whether it had all of its log directories by then."""
        self._marks: dict[str, dict[str, bool]] = {}
        """By broker and log directory: whether it had a mark at the start."""
        world.observe(self._observe, "broker-state")
        world.on_start.append(self._note_marks)
        world.on_end.append(self._look_at_end)
        world.mesh.on_ask[BrokerRegistrationRequest].append(self._look_at_registration)

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        """Show a mark that a crash would leave, in a directory that is open."""
        del event, fields
        manager = replicas_of(process)
        if manager is None or manager._is_stopped:
            return
        for directory in manager.logs.online:
            if directory.is_open and _has_mark(disk_of(directory)):
                shown = {"directory": directory.path}
                self._watcher.take(process.name, "directory-marked", shown)

    def _note_marks(self, process: Incarnation) -> None:
        disks = self._nodes[process.name].disks
        found = {path: disk.exists(CLEAN_SHUTDOWN_FILE) for path, disk in disks.items()}
        self._marks[process.name] = found

    def _look_at_end(self, process: Incarnation) -> None:
        """Show what a power loss may take from a directory with a mark."""
        node = process.node
        if node is None or node.replicas is None or node.lifecycle is None:
            return
        epoch = node.lifecycle.broker_epoch
        if epoch != NOT_REGISTERED_EPOCH:
            in_order = epoch if node.replicas._is_stopped else NO_EPOCH
            self._ends[process.name] = in_order, not node.replicas.logs.has_offline
        for directory in node.replicas.logs.directories:
            disk = disk_of(directory)
            if _has_mark(disk):
                logs = tuple(f"{log.directory}/" for log in directory._all())
                lost = [
                    path
                    for path, content in sorted(disk.files().items())
                    if path.startswith(logs)
                    and path.endswith(".log")
                    and disk.durable(path) != content
                ]
                shown = {"directory": directory.path, "lost": lost}
                self._watcher.take(process.name, "directory-left", shown)

    def _look_at_registration(self, name: str, request: Any) -> None:
        """Show of which end a broker speaks as it registers, and of which it may, or has to."""
        manager = replicas_of(self._nodes[name].process)
        if manager is None:
            return
        logs = manager.logs
        last, is_whole = self._ends.get(name, (NO_EPOCH, False))
        marks = [self._marks[name][each.path] for each in logs.directories]
        shown = {
            "previous": int(request.previous_broker_epoch),
            "last": last,
            "is_known": is_whole and all(marks) and not logs.has_offline,
        }
        self._watcher.take(name, "registration-sent", shown)


def _has_mark(disk: MemoryDisk) -> bool:
    return disk.durable(CLEAN_SHUTDOWN_FILE) is not None
