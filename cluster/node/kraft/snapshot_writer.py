"""How a state machine writes a snapshot of itself (RecordsSnapshotWriter)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.node.kraft.snapshot_store import SnapshotFile
from cluster.node.log.batch.control import ControlMessage
from cluster.node.log.metadata.snapshot import SnapshotEncoder
from cluster.node.log.types import OffsetAndEpoch


class SnapshotWriter:
    """`append`..., then `freeze`. Nobody sees the snapshot before it is durable."""

    def __init__(
        self,
        file: SnapshotFile,
        last_contained_log_timestamp_ms: int,
        control: Sequence[ControlMessage],
        on_durable: Callable[[SnapshotFile], None],
    ) -> None:
        """`control` is what follows the SnapshotHeader, `on_durable` is called at the end."""
        self._file = file
        self._on_durable = on_durable
        self._encoder = SnapshotEncoder(file.id, last_contained_log_timestamp_ms)
        file.append(self._encoder.header(control))

    @property
    def id(self) -> OffsetAndEpoch:
        """What it will stand for."""
        return self._file.id

    @property
    def size_bytes(self) -> int:
        """Size so far."""
        return self._file.size_bytes

    def append(self, values: Sequence[bytes]) -> None:
        """Add one batch of metadata records."""
        self._file.append(self._encoder.records(values))

    def freeze(self) -> None:
        """Finish it."""
        self._file.append(self._encoder.footer())
        self._file.freeze(lambda: self._on_durable(self._file))
