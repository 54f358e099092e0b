"""Invariants of what a node does in its own time, on its disks, and nobody waits for.

They read events that no node traces (`harness/sim/sights/upkeep.py`): `checkpoint-seen`, a high
watermark that has stood for so long and what the checkpoint on the disk has; `cleaning-seen`, for
how long log and snapshots have been larger than is kept; `file-left`, a file of a snapshot that is
neither being written nor waits to be removed; `move-seen`, a replica begins its way to another log
directory, and whether it has a folder there; `logs-seen`, the log directories in which a broker has
a log of a partition, or a future log; `request-late`, a request that a node took so long
ago and has not answered, and for how long it was to wait; `fetch-idle`, a Fetch that is answered
without news, when it had waited for so long, and was to wait at the most; `watch-left`, how many
Fetch sessions or requests a broker watches partitions for that are over.

Of `harness/sim/sights/starts.py`: `start-seen`, what a node has of a log, and what it would find.

Of `harness/sim/sights/folders.py`: `directory-used`, a log directory, whether its broker has opened
it, and folders there of which it has no log, or files that their logs do not know; `epochs-seen`,
the leader epochs of a log, and those in its file; `point-seen`, the recovery point of a log, up to
where a power loss leaves the log, and an index below that it changes; `point-moved`, that point,
where it has to be at least, and why; `log-opened`, where a log begins and ends and is committed,
and what its checkpoints say; `producers-seen`, what a log remembers of producers, and the last
batches that it has of them; `indexes-seen`, a segment, both of its indexes, and whether nothing
more is appended to it.

Of `harness/sim/sights/retention.py`: `segment-deleted`, a segment that a leader's log has no more;
`segment-due`, the first one of a log, which is committed, for how long it has been due, and how
often its broker checks. Each has the age of the segment's newest record, by the clock of its host,
and how large the log is without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checkers.invariants.fold import Broken, Invariant, rule, rules_of
from checkers.invariants.sight import Fields

CHECKPOINT_MS: Final = 5_000.0
"""replica.high.watermark.checkpoint.interval.ms"""
SLACK_MS: Final = 1_000.0
"""What is due may wait for so long: for a node that was stopped, or for its disk."""

_EARLY_MS: Final = 1.0
"""A timer may be so early by the clock that set it."""


@rule("checkpoint-seen", "ReplicaManager, startHighWatermarkCheckPointThread")
def mark_checkpointed(node: str, fields: Fields) -> Broken | None:
    """A high watermark is in its checkpoint two of the intervals later at the most.

    A broker that starts takes what is there for committed, and tells consumers no more.
    """
    mark, saved, for_ms = fields["mark"], fields["saved"], fields["for_ms"]
    if saved >= mark or for_ms <= 2 * CHECKPOINT_MS + SLACK_MS:
        return None
    return Broken(
        f"{node} called all of {fields['name']} below {mark} committed {for_ms:.0f} ms ago, "
        f"and its checkpoint has {saved} still"
    )


class SnapshotsCleaned(Invariant):
    """An old snapshot goes, and the log below the next one, when both are larger than is kept.

    So do the files of snapshots that were not finished, at the next start, those of downloads that
    were given up, at once, and deleted ones. A finished one is a snapshot that the node knows.
    """

    name = "snapshots-cleaned"
    source = "KIP-630, metadata.max.retention.bytes; KafkaMetadataLog, recoverSnapshots"

    def on_cleaning_seen(self, node: str, fields: Fields) -> Broken | None:
        for_ms, interval_ms = fields["for_ms"], fields["interval_ms"]
        if for_ms <= interval_ms + SLACK_MS:
            return None
        return Broken(
            f"{node} keeps {fields['size_bytes']} bytes of log and snapshots, where "
            f"metadata.max.retention.bytes is {fields['kept_bytes']}, for {for_ms:.0f} ms, and "
            f"cleans every {interval_ms:g} ms"
        )

    def on_file_left(self, node: str, fields: Fields) -> Broken | None:
        path = fields["path"]
        return Broken(f"{node} keeps {path}, which it neither writes, knows nor will remove")


class MoveKept(Invariant):
    """A replica that begins to move to another log directory has a folder there.

    By that folder a broker that starts finds the move again. One that a crash left with two logs of
    a partition, or two future ones, leaves one of them: whichever it finds first would be read.
    """

    name = "move-kept"
    source = "KIP-113, LogManager.getOrCreateLog, loadLogs"

    def on_move_seen(self, node: str, fields: Fields) -> Broken | None:
        if fields["is_there"]:
            return None
        return Broken(f"{node} moves {fields['name']} to {fields['to_dir']} and makes no folder")

    def on_logs_seen(self, node: str, fields: Fields) -> Broken | None:
        directories = fields["directories"]
        if len(directories) < 2:
            return None
        return Broken(
            f"{node} has a {fields['log']} of {fields['name']} in {' and '.join(directories)}"
        )


@rule("request-late", "DelayedOperation.java; fetch.max.wait.ms, timeout.ms; KAFKA-15100")
def answered_in_time(node: str, fields: Fields) -> Broken | None:
    """A request that says for how long it may wait is answered by then, with what there is.

    Fetch, Produce and DeleteRecords wait for other brokers or replicas, and for nothing else:
    whatever becomes of those, or of a disk, their time ends. What else a replica of the quorum asks
    another waits for an epoch or a vote to be written at most, and is answered then.
    """
    for_ms, waits_ms = fields["for_ms"], fields["waits_ms"]
    if for_ms <= waits_ms + SLACK_MS:
        return None
    return Broken(
        f"{node} took a {fields['request']} {for_ms:.0f} ms ago that was to wait "
        f"{waits_ms:g} ms at the most, and has not answered it"
    )


@rule("fetch-idle", "fetch.max.wait.ms; KIP-595; KAFKA-14145")
def waits_for_news(node: str, fields: Fields) -> Broken | None:
    """A Fetch is answered without news when its time is over, and not before.

    Else whoever has all there is asks without a pause. News are records, an error, a divergence, a
    snapshot, and a high watermark that the asker does not know.
    """
    for_ms, waits_ms = fields["for_ms"], fields["waits_ms"]
    if for_ms >= waits_ms - _EARLY_MS:
        return None
    return Broken(
        f"{node} answered a Fetch without news after {for_ms:.0f} ms, which was to wait for some "
        f"for {waits_ms:g} ms"
    )


@rule(
    "watch-left",
    "KIP-227, max.incremental.fetch.session.cache.slots; DelayedOperationPurgatory.java",
)
def watches_end(node: str, fields: Fields) -> Broken | None:
    """What a broker watches for a Fetch session, or a request that waits, ends with that.

    Both are bounded, and what is left of each would grow for as long as the broker runs.
    """
    count, what = fields["count"], fields["what"]
    return Broken(f"{node} watches partitions for {count} x {what} that it has no more")


@rule("directory-used", "LogManager.loadLogs; KIP-112")
def directory_opened(node: str, fields: Fields) -> Broken | None:
    """A broker uses a log directory whose logs it has opened, each of them, with all its files.

    With one that it could not open it goes on without: a replica that is empty would come back, and
    lead, as if it had what it once acknowledged. A segment or snapshot that it cut off and left
    there comes back behind other records.
    """
    if fields["is_open"] and not fields["lacks"]:
        return None
    what = ", ".join(fields["lacks"]) if fields["is_open"] else "the logs"
    return Broken(f"{node} uses {fields['log_dir']} and has not opened {what} there")


@rule("epochs-seen", "KIP-101; LeaderEpochFileCache, KAFKA-16541")
def epochs_saved(node: str, fields: Fields) -> Broken | None:
    """The leader epochs of a log are in its file, where a start finds those without a record."""
    known, saved = fields["known"], fields["saved"]
    if saved == known:
        return None
    file = "its file cannot be read" if saved is None else f"its file has {saved}"
    return Broken(f"{node} knows the epochs {known} of {fields['name']}, and {file}")


class PointDurable(Invariant):
    """What lies below a recovery point is durable, with its indexes: no start looks at it.

    The point goes back only where its log is cut, and is at the last segment once that was begun:
    what lies below would be read again by each start. For metadata it is where that is durable.
    """

    name = "point-durable"
    source = "UnifiedLog.flush, roll; recovery-point-offset-checkpoint"

    def on_point_seen(self, node: str, fields: Fields) -> Broken | None:
        has = f"{node} has the recovery point {fields['point']} of {fields['name']}"
        if fields["lost"] is not None:
            return Broken(f"{has}, and a power loss changes {fields['lost']} below")
        if fields["durable_end"] >= fields["point"]:
            return None
        return Broken(
            f"{has}, of which a power loss leaves what lies below {fields['durable_end']}"
        )

    def on_point_moved(self, node: str, fields: Fields) -> Broken | None:
        point, (least, why) = fields["point"], fields["least"]
        if point >= least:
            return None
        what = f"{node} has the recovery point {point} of {fields['name']}"
        return Broken(f"{what}, and not {least}, {why}")


@rule("log-opened", "LogManager.loadLog; ReplicaManager, replication-offset-checkpoint")
def checkpoints_heeded(node: str, fields: Fields) -> Broken | None:
    """A log that is opened begins where its checkpoint says, and what that has is committed.

    Else deleted records come back, and consumers are shown less than they were.
    """
    (start, end), mark, (saved_start, saved_mark) = (
        fields[name] for name in ("log", "high_watermark", "saved")
    )
    if start >= saved_start and mark >= min(saved_mark, end):
        return None
    return Broken(
        f"{node} opens {fields['name']} from {start} to {end}, committed up to {mark}, and has "
        f"checkpoints by which it begins at {saved_start} and is committed up to {saved_mark}"
    )


@rule("start-seen", "LogLoader.java; KafkaMetadataLog, recoverSnapshots; KIP-98; KIP-853")
def start_finds(node: str, fields: Fields) -> Broken | None:
    """What a node has is what it would find, were it killed now, or stopped in order, and started.

    So it has of logs, their epochs, producers, times and voters, and of those of metadata, once
    they are durable, after a power loss, too. Damage that a fault did is left out.
    """
    has, finds, after = fields["has"], fields["finds"], fields["after"]
    says = f"{node}, started again after {after}, would find of {fields['name']}"
    if isinstance(finds, str):
        return Broken(f"{says} {finds}")
    for what, known in has.items():
        if finds[what] != known:
            found = finds[what] or "none"
            return Broken(f"{says} the {what} {found}, and has {known or 'none'}")
    return None


@rule("producers-seen", "KIP-98; ProducerStateManager.java")
def producers_in_log(node: str, fields: Fields) -> Broken | None:
    """What a log remembers of a producer, in memory and in snapshots, is its last batch there.

    Else a batch that is sent again is appended again, or one that is new is refused.

    Compare epochs, last sequences and last offsets; the log may have lost older batches.
    """
    remembered, written = fields["remembered"], fields["written"]
    for producer in sorted({*remembered, *written}):
        known, found = remembered.get(producer), written.get(producer)
        is_older = found is None and known[2] < fields["start"]
        if known != found and not is_older:
            said = [
                "nothing" if each is None else f"sequence {each[1]} of epoch {each[0]} at {each[2]}"
                for each in (known, found)
            ]
            return Broken(
                f"{node} {fields['what']} remembers {said[0]} of producer {producer}, of which "
                f"the log has {said[1]}"
            )
    return None


@rule(
    "indexes-seen", "LogSegment.append, onBecomeInactiveSegment; DumpLogSegments, index mismatches"
)
def segment_indexed(node: str, fields: Fields) -> Broken | None:
    """The indexes of a segment name its batches, one every so many bytes.

    The time index has, for each batch that is named, the largest timestamp so far, with the batch
    that was the first to have it, and once the segment was rolled ends with the largest of all.
    After a start reads begin, and retention and ListOffsets go, by what is there.

    Judge positions, last offsets and largest timestamps of batches by both indexes.
    """
    reason = next(_index_faults(fields), None)
    return None if reason is None else Broken(f"{node} has {fields['path']}, {reason}")


def _index_faults(fields: Fields) -> Iterator[str]:
    times, due, indexed, latest_ms = fields["times"], [], 0, -1
    known, first = {time_ms for time_ms, _ in times}, {}
    for position, last, time_ms in fields["batches"]:
        if time_ms > latest_ms:
            latest_ms = first[last] = time_ms
        if position - indexed > fields["interval_bytes"]:
            due.append((last, position))
            indexed = position
            if latest_ms not in {-1, *known}:
                yield f"whose time index lacks {latest_ms} ms, the latest up to byte {position}"
    if fields["offsets"] != due:
        odd = sorted({*due} ^ {*fields["offsets"]}) or due
        yield f"whose index {'lacks' if odd[0] in due else 'has'} the entry {odd[0]}"
    for time_ms, last in times:
        if first.get(last) != time_ms:
            yield f"whose time index has {time_ms} ms at offset {last}, counted from its begin"
    if fields["is_rolled"] and (times[-1][0] if times else -1) != latest_ms:
        yield f"which has a record of {latest_ms} ms, and a time index that ends before"


class RetentionKept(Invariant):
    """A leader deletes a segment unasked when it is old enough, or the others are large enough.

    It deletes no others, and at every replica what is due is gone at the next check.
    """

    name = "retention-kept"
    source = "retention.bytes, retention.ms; UnifiedLog, deleteOldSegments"

    def on_segment_deleted(self, node: str, fields: Fields) -> Broken | None:
        """Judge a deletion, when more may have been appended since; its age may not be known."""
        if is_over_retention(fields) or fields["age_ms"] is None:
            return None
        return Broken(f"{node} leads {fields['name']} and deleted {_segment(fields)}")

    def on_segment_due(self, node: str, fields: Fields) -> Broken | None:
        """Judge the first segment of a log, which is due and committed."""
        for_ms, interval_ms = fields["for_ms"], fields["interval_ms"]
        if for_ms <= interval_ms + SLACK_MS:
            return None
        return Broken(
            f"{node} holds {fields['name']}, checks every {interval_ms:g} ms what is to be deleted "
            f"and for {for_ms:.0f} ms has kept {_segment(fields)}"
        )


def is_over_retention(fields: Fields) -> bool:
    """Whether a segment's log is large enough without it, or all of it is old enough."""
    age_ms, kept_bytes, kept_ms = fields["age_ms"], fields["kept_bytes"], fields["kept_ms"]
    is_old = age_ms is not None and 0 <= kept_ms < age_ms
    return bool(is_old or 0 <= kept_bytes <= fields["left_bytes"])


def _segment(fields: Fields) -> str:
    return (
        f"{fields['path']}, whose newest record is {fields['age_ms']} ms old, with "
        f"{fields['left_bytes']} bytes beside it, where retention.bytes is {fields['kept_bytes']} "
        f"and retention.ms {fields['kept_ms']}"
    )


UPKEEP = rules_of(__name__)
