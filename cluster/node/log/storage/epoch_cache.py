"""The leader-epoch cache: at which offset each epoch's records begin.

It answers the question behind every truncation (KIP-101, KIP-595): "up to where may my log agree
with a log that ends in epoch e?" Entries are strictly increasing in epoch
and in start offset. Epoch 0 is an epoch like any other (KAFKA-10432).

File `leader-epoch-checkpoint`, as Kafka writes it: a line `0` (version), a line with the number of
entries, then a line `<epoch> <start offset>` for each.
"""

from __future__ import annotations

from bisect import bisect_right

from cluster.node.log.types import OffsetAndEpoch
from cluster.values import valueclass

EPOCH_FILE = "leader-epoch-checkpoint"
_VERSION = "0"


@valueclass(order=True)
class EpochEntry:
    """The records of `epoch` begin at `start_offset`."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """Epoch boundaries of one log, in memory; `encode` and `decode` speak the file's format."""

    def __init__(self, entries: tuple[EpochEntry, ...] = ()) -> None:
        self._entries: list[EpochEntry] = []
        for entry in entries:
            if self._entries and not _follows(entry, self._entries[-1]):
                raise ValueError(f"epoch entries are not increasing at {entry}")
            if entry.epoch < 0 or entry.start_offset < 0:
                raise ValueError(f"negative epoch entry {entry}")
            self._entries.append(entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int | None:
        """The epoch of the last entry; None when there is none."""
        return self._entries[-1].epoch if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; True when that changed the cache.

        An epoch that is the latest already keeps its start. Entries that contradict the new one,
        of no lower epoch or no lower offset, are dropped: they stand for an epoch that was begun
        here and left no record.
        """
        assert epoch >= 0
        assert start_offset >= 0
        if self._entries:
            latest = self._entries[-1]
            if latest.epoch == epoch and latest.start_offset <= start_offset:
                return False
        while self._entries and not _follows(EpochEntry(epoch, start_offset), self._entries[-1]):
            self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end: int) -> OffsetAndEpoch:
        """Find the largest known epoch <= `epoch`, and the offset where its records end.

        - The latest epoch, and any that is later than it, ends at `log_end`.
        - An epoch between two known ones left no record here: the answer is the earlier of the
          two and the start of the later one.
        - An epoch below all known ones: `epoch` itself and the first entry's start. Nothing that
          the asker has of it can be shown to agree, so it must give up everything from there on.
        - Without entries: epoch 0 and `log_end`.

        As `LeaderEpochFileCache.endOffsetFor`, except that an epoch later than all is answered
        with the latest, as `KafkaRaftLog.endOffsetForEpoch` does.
        """
        index = bisect_right(self._entries, epoch, key=_epoch_of)
        end = self._entries[index].start_offset if index < len(self._entries) else log_end
        if index:
            return OffsetAndEpoch(end, self._entries[index - 1].epoch)
        return OffsetAndEpoch(end, epoch if self._entries else 0)

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch of the record at `offset`; None below the first entry."""
        if self._entries and self._entries[-1].start_offset <= offset:
            return self._entries[-1].epoch
        index = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[index - 1].epoch if index else None

    def truncate_from_end(self, offset: int) -> bool:
        """Drop all entries that begin at or after `offset`; True when that changed the cache.

        Also when the log itself is no longer than `offset`: an epoch may have been begun at its
        end without a record (KAFKA-10706).
        """
        before = len(self._entries)
        while self._entries and self._entries[-1].start_offset >= offset:
            self._entries.pop()
        return len(self._entries) != before

    def truncate_from_start(self, offset: int) -> bool:
        """Forget what ends at or before `offset`, the log's new start; True when changed.

        The entry that holds `offset` stays and begins there now.
        """
        index = bisect_right(self._entries, offset, key=_start_of)
        if not index:
            return False
        kept = EpochEntry(self._entries[index - 1].epoch, offset)
        changed = self._entries[:index] != [kept]
        self._entries[:index] = [kept]
        return changed

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def encode(self) -> bytes:
        """Return the content of the file."""
        lines = [_VERSION, str(len(self._entries))]
        lines += [f"{entry.epoch} {entry.start_offset}" for entry in self._entries]
        return ("\n".join(lines) + "\n").encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochCache:
        """Parse a file's content. Raises ValueError unless it is complete and increasing."""
        text = data.decode("ascii")
        lines = text.split("\n")
        if lines[0] != _VERSION or lines[-1] or len(lines) < 3:
            raise ValueError("not a leader-epoch checkpoint of version 0")
        if int(lines[1]) != len(lines) - 3:
            raise ValueError(f"{lines[1]} entries announced, {len(lines) - 3} present")
        entries = []
        for line in lines[2:-1]:
            epoch, start_offset = line.split(" ")
            entries.append(EpochEntry(int(epoch), int(start_offset)))
        return cls(tuple(entries))


def _follows(entry: EpochEntry, earlier: EpochEntry) -> bool:
    return entry.epoch > earlier.epoch and entry.start_offset > earlier.start_offset


def _epoch_of(entry: EpochEntry) -> int:
    return entry.epoch


def _start_of(entry: EpochEntry) -> int:
    return entry.start_offset
