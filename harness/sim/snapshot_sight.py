"""Shows nodes of a simulated world that have not made a snapshot though one is due.

`SnapshotWatch(world, watcher)` looks at a node's image at its trace events `hw`, while its disk has
nothing to do. It counts the batches between the newest snapshot and the image: each has a head of
61 bytes at least, and counts as a whole for `metadata.log.max.record.bytes.between.snapshots`.
"""

from __future__ import annotations

from checkers.invariants.watcher import Watcher
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld

_BATCH_BYTES_MIN = 61


class SnapshotWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._nodes = world.nodes
        self._scheduler = world.scheduler
        self._watcher = watcher
        world.observers.append(self._observe)

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        del fields
        if event != "hw" or process.node is None or not self._nodes[process.name].disk.is_idle:
            return
        controller, log = process.node.controller, self._watcher.quorum.logs[process.name]
        newest = process.node.raft._core.log.snapshots.latest
        begin = 0 if newest is None else newest.offset
        batches = log.position(controller.image.offset + 1) - log.position(begin)
        bytes_max = controller._settings.max_record_bytes_between_snapshots
        if batches * _BATCH_BYTES_MIN < 2 * bytes_max or controller.image.in_transaction:
            return
        shown = {
            "snapshot_offset": begin,
            "image_offset": controller.image.offset,
            "bytes_min": batches * _BATCH_BYTES_MIN,
            "bytes_max": bytes_max,
            "incarnation": process.incarnation,
            "world_ms": self._scheduler.now_ms,
        }
        self._watcher.take(process.name, "snapshot-due", shown)
