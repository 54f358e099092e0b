"""Invariants of what a broker's logs have on a disk that it waits for no more.

They read events that no node traces (`harness/sim/folder_sight.py`): `directory-used`, a log
directory, whether its broker has opened it, and folders of partitions there of which it has no log;
`epochs-seen`, the leader epochs of a log, and those in its file; `point-seen`, the recovery point
of a log, and up to where a power loss leaves the log; `times-seen`, a segment to which nothing more
is appended, its largest timestamp, and the last one in its time index.
"""

from __future__ import annotations

from checkers.invariants.fold import Broken, Invariant
from checkers.invariants.sight import Fields


class DirectoryOpened(Invariant):
    """A broker uses a log directory whose logs it has opened, each of them.

    With one that it could not open it goes on without: a replica that is empty would come back, and
    lead, as if it had what it once acknowledged.
    """

    name = "directory-opened"
    source = "LogManager.loadLogs; KIP-112"

    def on_directory_used(self, node: str, fields: Fields) -> Broken | None:
        if fields["is_open"] and not fields["lacks"]:
            return None
        what = f"the logs {', '.join(fields['lacks'])}" if fields["is_open"] else "the logs"
        return Broken(f"{node} uses {fields['log_dir']} and has not opened {what} there")


class EpochsSaved(Invariant):
    """The leader epochs of a log are in its file, where a start finds those without a record."""

    name = "epochs-saved"
    source = "KIP-101; LeaderEpochFileCache, KAFKA-16541"

    def on_epochs_seen(self, node: str, fields: Fields) -> Broken | None:
        known, saved = fields["known"], fields["saved"]
        if saved == known:
            return None
        file = "its file cannot be read" if saved is None else f"its file has {saved}"
        return Broken(f"{node} knows the epochs {known} of {fields['name']}, and {file}")


class PointDurable(Invariant):
    """What lies below a recovery point is durable: no start looks for damage there."""

    name = "point-durable"
    source = "UnifiedLog.flush, recovery-point-offset-checkpoint"

    def on_point_seen(self, node: str, fields: Fields) -> Broken | None:
        if fields["durable_end"] >= fields["point"]:
            return None
        return Broken(
            f"{node} has the recovery point {fields['point']} of {fields['name']}, of which a "
            f"power loss leaves what lies below {fields['durable_end']}"
        )


class TimesIndexed(Invariant):
    """The time index of a segment that was rolled ends with the largest timestamp of the segment.

    After a start it is taken from there: retention and ListOffsets go by it.
    """

    name = "times-indexed"
    source = "LogSegment.onBecomeInactiveSegment, LogSegment.recover"

    def on_times_seen(self, node: str, fields: Fields) -> Broken | None:
        latest_ms, indexed_ms = fields["latest_ms"], fields["indexed_ms"]
        if indexed_ms == latest_ms:
            return None
        return Broken(
            f"{node} has a record of {latest_ms} ms in {fields['path']}, whose time index ends at "
            f"{indexed_ms} ms"
        )


FOLDERS: tuple[type[Invariant], ...] = (DirectoryOpened, EpochsSaved, PointDurable, TimesIndexed)
