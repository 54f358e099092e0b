"""What lies below a folder: runs, batches of simulated seeds, and what was not looked into.

All of it is walked, however deep and within runs too: a run that failed may lie inside of another's
folder. Links are not followed, since what they lead to can change without the folder, and pipes,
sockets and devices are not opened. Each of these is named, for the runs behind it were not judged:

- a link to a folder, unless what it leads to is walked anyway; a link to nothing;
- a pipe, a socket, a device;
- a folder that cannot be read;
- an archive, as CI keeps runs in, but for those among the files of a run's nodes.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from extensions.plain_files import open_plain

BATCH_MARK = "batch.json"
_RUN_MARKS = frozenset(
    {
        *("plan.json", "history.jsonl", "history.parquet", "digests.jsonl", "nodes"),
        *("results.json", "certificates.jsonl"),
    }
)
"""A folder with any of these is a run's, so that a damaged run is reported, not skipped."""
_PAGES = {
    "report.html": (b'<header class="verdict ',),
    "junit.xml": (b'<property name="run" value="', b'.check" name="'),
}
"""What makes a page that of a run: other tools give their files the same names."""
_PAGE_BYTES_MAX = 1 << 27
_ARCHIVE = re.compile(
    r"\.(zip|7z|rar|cpio|t(gz|az|b2|bz2?|xz|lz|lz4|zst?)|tar(\.\w+)?)", re.IGNORECASE
)
"""How the name of an archive ends."""


@dataclass
class Walk:
    """What was found below a folder."""

    runs: list[Path] = field(default_factory=list)
    """Folders of runs and batches, each before those inside of it."""
    unread: list[tuple[Path, str]] = field(default_factory=list)
    """What was not looked into, and what it is."""


def is_run(folder: Path) -> bool:
    """Whether a folder is, or was, that of one run."""
    return any(os.path.lexists(folder / name) for name in _RUN_MARKS) or any(
        _is_page_of_a_run(folder / name) for name in _PAGES
    )


def is_batch(folder: Path) -> bool:
    """Whether a folder is that of a batch of simulated seeds."""
    return os.path.lexists(folder / BATCH_MARK)


def walk(roots: Sequence[Path]) -> Walk:
    """Look into folders, which may be given by links, and all below them. Raises nothing."""
    found = Walk()
    links: list[Path] = []
    walked: set[str] = set()
    waiting = [*reversed(roots)]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            found.unread.append((folder, f"cannot be read ({error.strerror})"))
            continue
        walked.add(os.path.realpath(folder))
        if is_batch(folder) or is_run(folder):
            found.runs.append(folder)
        waiting += [Path(entry) for entry in reversed(entries) if _is_folder(entry)]
        links += [Path(entry) for entry in entries if entry.is_symlink()]
        found.unread += _odd(entries)
        if not _is_of_nodes(folder):
            found.unread += [(Path(e), "is an archive") for e in entries if _is_archive(e)]
    for link in links:
        # Not Path.is_file, which raises for a circle, and for a name that is too long.
        if os.path.isfile(link) or os.path.realpath(link) in walked:  # noqa: PTH113
            continue
        leads_on = os.path.isdir(link)  # noqa: PTH112
        found.unread.append((link, "is a link to a folder" if leads_on else "is a dead link"))
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _is_archive(entry: os.DirEntry[str]) -> bool:
    suffixes = Path(entry.name).suffixes
    names = ("".join(suffixes[-2:]), "".join(suffixes[-1:]))
    return any(map(_ARCHIVE.fullmatch, names)) and not _is_folder(entry)


def _is_of_nodes(folder: Path) -> bool:
    """Whether a folder is among the files of a run's nodes."""
    places = (folder, *folder.parents)
    return any(place.name == "nodes" and is_run(place.parent) for place in places)


def _odd(entries: list[os.DirEntry[str]]) -> Iterator[tuple[Path, str]]:
    for entry in entries:
        if not (_is_folder(entry) or entry.is_symlink() or entry.is_file()):
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except OSError:  # it went since it was listed, as the sockets of ended disks do
                continue
            kinds = ((stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))
            kind = next((name for is_kind, name in kinds if is_kind(mode)), "device")
            yield Path(entry), f"is a {kind}"


def _is_page_of_a_run(path: Path) -> bool:
    try:
        with open_plain(path, follow=False) as file:
            data = file.read(_PAGE_BYTES_MAX)
    except OSError:
        return False
    return all(mark in data for mark in _PAGES[path.name])
