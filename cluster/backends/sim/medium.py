"""What lies on a simulated disk: files and folders as they were synced, and as they became since.

What a power loss keeps is decided here: of each file what was synced and any prefix of the changes
since, the last one torn; of each folder the names that it had when it was synced, or after any
change since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from cluster.node.ports import Random, nothing

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

    def apply_to(self, content: bytearray) -> None:
        """Change a content."""
        del content[self.start :]
        content += self.data

    def tear(self, random: Random) -> Change:
        """Return what a power loss keeps of it while it is under way."""
        return Change(self.start, self.data[: random.randrange(0, len(self.data) + 1)])


@dataclass(slots=True, eq=False)
class File:
    """Content as synced, and every change since."""

    synced: bytearray = field(default_factory=bytearray)
    content: bytearray = field(default_factory=bytearray)
    changes: deque[Change] = field(default_factory=deque)
    at_once: bool = False
    """Whether reads see more than is synced, whatever else the disk hides."""

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

    def sync(self) -> None:
        """Make the content durable."""
        for change in self.changes:  # not a copy of a file that may be large
            change.apply_to(self.synced)
        self.changes.clear()

    def mark(self) -> Callable[[], None]:
        """Return what makes durable all that is in the file now."""
        if not self.changes:
            return nothing
        last = self.changes[-1]

        def land() -> None:
            while any(change is last for change in self.changes):  # else it is durable already
                self.changes.popleft().apply_to(self.synced)

        return land

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
        if not self.changes or not self.changes[-1].in_process:
            return  # what was appended at once took along what had waited before
        while self.changes and self.changes[-1].in_process:
            self.changes.pop()
        self.content = bytearray(self.synced)
        for change in self.changes:
            change.apply_to(self.content)

    def _keep(self, random: Random, keep: Keep) -> list[Change]:
        changes = list(self.changes)
        if keep == "nothing" or not changes:
            return []
        if keep == "torn":
            last = changes[-1]
            return [*changes[:-1], Change(last.start, last.data[: len(last.data) // 2])]
        kept = changes[: random.randrange(0, len(changes) + 1)]
        if kept:
            kept[-1] = kept[-1].tear(random)
        return kept


Names = dict[str, File]


@dataclass(slots=True)
class Folder:
    """Names as synced, and what they were after each change since."""

    synced: Names = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    changes: list[Names] = field(default_factory=list)
    count: int = 0
    """Of all changes; the last ones are in `changes`."""

    def note_change(self) -> None:
        """Take note that the names are others; not durable."""
        self.count += 1
        self.changes.append(dict(self.names))
        del self.changes[:-CHANGES_MAX]

    def mark(self) -> Callable[[], None]:
        """Return what makes durable the names that there are now."""
        count = self.count

        def land() -> None:
            later = self.count - count
            if later < len(self.changes):  # else a sync has covered them
                self.synced = self.changes[-1 - later]
                del self.changes[: len(self.changes) - later]
            elif len(self.changes) == CHANGES_MAX:  # the oldest that is known is later
                self.synced = self.changes.pop(0)

        return land

    def sync(self) -> None:
        """Make the names durable."""
        self.synced = dict(self.names)
        self.changes.clear()

    def lose_power(self, random: Random, keep: Keep) -> None:
        """Keep the names as they were synced or, as `keep` says, after a change since."""
        states = [self.synced, *self.changes]
        index = random.randrange(0, len(states)) if keep == "any" else 0
        self.synced = states[index]
        self.names = dict(self.synced)
        self.changes.clear()
