"""What lies on a simulated disk: files and folders as they were synced, and as they became since.

What a power loss keeps is decided here: of each file what was synced and any prefix of the changes
since, the last one torn, or with zeros for what it lacks; of each folder the names that it had when
it was synced, or after any change since.

Kinder than a disk in one way: within what no fsync covered no later byte outlives an earlier one,
though ext4 and XFS may keep any sectors of an append (Pillai et al., "All File Systems Are Not
Created Equal", OSDI 2014). A node takes an intact batch of metadata behind a damaged one for rot of
the medium, and refuses to start. Harsher in another: names and contents follow no common order.

What a failed fsync should have kept is still read, but no fsync makes it durable: the kernel marks
its pages clean (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020: ext4 and
XFS). Only writing it again does. A later change of the file may be durable, and what was lost below
it is then a hole of zeros, as its blocks were never allocated.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from cluster.node.ports import Random

Keep = Literal["any", "nothing", "everything", "torn", "written"]
"""What a power loss keeps of the changes that were not synced; torn: all but half of the last.

Written: what a kill of the process keeps while the power stays on; everything: with what the
process still held. Either is durable only once it is synced: the next power loss may take it.
"""

CHANGES_MAX = 64
"""More unsynced changes of one file than this: the oldest were written back by the kernel."""


@dataclass(slots=True)
class Change:
    """One change of a file's content: from byte `start` on it becomes `data`."""

    start: int
    data: bytes
    in_process: bool = False
    """Whether a process would still hold it, as an append that waits for a sync."""
    in_place: bool = False
    """Whether what lies behind stays."""

    def apply_to(self, content: bytearray) -> None:
        """Change a content."""
        if len(content) < self.start:
            content += bytes(self.start - len(content))
        content[self.start : self.start + len(self.data) if self.in_place else None] = self.data

    def tear(self, random: Random) -> Change:
        """Return what a power loss keeps of it while it is under way.

        One time in four the size is ahead of the data, as blocks are allocated before they are
        written (ext4 and XFS): zeros follow.
        """
        size = random.randrange(0, len(self.data) + 1)
        kept = self.first(size)
        if self.in_place or random.randrange(0, 4):
            return kept
        return replace(kept, data=kept.data + bytes(random.randrange(0, len(self.data) - size + 1)))

    def first(self, size: int) -> Change:
        """Return the change of so many bytes only."""
        return replace(self, data=self.data[:size])


@dataclass(slots=True, eq=False)
class File:
    """Content as synced, and every change since."""

    synced: bytearray = field(default_factory=bytearray)
    content: bytearray = field(default_factory=bytearray)
    changes: deque[Change] = field(default_factory=deque)

    @property
    def kernel_bytes(self) -> int:
        """How much of the content has reached the kernel, where reads find it."""
        size = len(self.content)
        for change in reversed(self.changes):
            if not change.in_process:
                break
            size = change.start
        return size

    def change(self, change: Change) -> None:
        """Change the content; not durable."""
        change.apply_to(self.content)
        self.changes.append(change)
        if len(self.changes) > CHANGES_MAX:
            self.changes.popleft().apply_to(self.synced)

    def cut(self, size: int) -> None:
        """Cut the content and what is durable of it; of changes there must be appends only."""
        while self.changes and self.changes[-1].start >= size:
            self.changes.pop()
        del self.content[size:], self.synced[size:]

    def sync(self, *, failed: bool = False) -> None:
        """Make the content durable, or lose it."""
        if not failed:
            for change in self.changes:  # not a copy of a file that may be large
                change.apply_to(self.synced)
        self.changes.clear()

    def mark(self) -> Land:
        """Return what makes durable all that is in the file now, or loses it."""
        if not self.changes:
            return nothing_lands
        last = self.changes[-1]

        def land(*, failed: bool) -> None:
            while any(change is last for change in self.changes):  # else it is durable already
                change = self.changes.popleft()
                if not failed:
                    change.apply_to(self.synced)

        return land

    def rewrite(self, start: int) -> None:
        """Write again, in place, what the file has from `start` on."""
        self.change(Change(start, bytes(self.content[start:]), in_place=True))

    def lose_power(self, random: Random, keep: Keep) -> None:
        """Keep what was synced and, as `keep` says, changes since."""
        for change in self._keep(random, keep):
            change.apply_to(self.synced)
        self.content = bytearray(self.synced)
        self.changes.clear()

    def keep_all(self) -> None:
        """Let the kernel have what a process still holds; nothing more is durable."""
        for change in self.changes:
            change.in_process = False

    def lose_process(self) -> None:
        """Forget what a process that was killed still held."""
        del self.content[self.kernel_bytes :]
        # What was appended at once took along what had waited before.
        while self.changes and self.changes[-1].in_process:
            self.changes.pop()

    def _keep(self, random: Random, keep: Keep) -> list[Change]:
        changes = list(self.changes)
        if keep == "nothing" or not changes:
            return []
        if keep == "torn":
            last = changes[-1]
            return [*changes[:-1], last.first(len(last.data) // 2)]
        kept = changes[: random.randrange(0, len(changes) + 1)]
        if kept:
            kept[-1] = kept[-1].tear(random)
        return kept


class Land(Protocol):
    """The end of a sync aside."""

    def __call__(self, *, failed: bool) -> None:
        """Make durable what it is of, or lose it."""


def nothing_lands(*, failed: bool) -> None:
    """End a sync of what is durable already."""


Names = dict[str, "File | Folder"]


@dataclass(slots=True)
class Folder:
    """Names as synced, and what they were after each change since."""

    synced: Names = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    changes: list[Names] = field(default_factory=list)
    count: int = 0
    """Of all changes; the last ones are in `changes`."""
    failed: bool = False
    """Whether an fsync failed: names are in the journal, without which the file system ends."""

    def note_change(self) -> None:
        """Take note that the names are others; not durable."""
        self.count += 1
        self.changes.append(dict(self.names))
        del self.changes[:-CHANGES_MAX]

    def mark(self) -> Land:
        """Return what makes durable the names that there are now."""
        count = self.count

        def land(*, failed: bool) -> None:
            if failed:
                self.failed = True
                return
            later = self.count - count
            if later < len(self.changes):  # else a sync has covered them
                self.synced = self.changes[-1 - later]
                del self.changes[: len(self.changes) - later]
            elif len(self.changes) == CHANGES_MAX:  # the oldest that is known is later
                self.synced = self.changes.pop(0)

        return land

    def sync(self, *, failed: bool = False) -> None:
        """Make the names durable, or fail to."""
        self.failed = failed
        if not failed:
            self.synced = dict(self.names)
            self.changes.clear()

    def lose_power(self, random: Random, keep: Keep) -> None:
        """Keep the names as they were synced or, as `keep` says, after a change since."""
        states = [self.synced, *self.changes]
        index = random.randrange(0, len(states)) if keep == "any" else 0
        self.synced = states[index]
        self.names = dict(self.synced)
        self.changes.clear()
        self.failed = False
