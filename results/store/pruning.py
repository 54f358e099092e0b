"""Removing runs, and nothing that the toolkit did not make.

A folder is that of a run only where its chain of digests begins with its plan as it is. In it,
these are ours: what the chain names, what follows from it (results, report, tables), and, where the
harness was killed before the end of its recording, all below `nodes/`. Anything else, such as notes
of a user, stays, and the folder with it. A link is removed as a link: what it points to is not
ours.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from results.store.digests import digest_of, files_below, read_chain
from results.store.files import StoreError
from results.store.run_store import DERIVED, RunStore

_ASIDE = re.compile(r"\.(.+)\.[A-Za-z0-9_]{8}")
"""What a crash left of a file that was written aside (results.store.files.write_atomically)."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What can be removed of a run."""

    store: RunStore
    ours: tuple[str, ...]
    """Paths in its folder."""
    foreign: tuple[str, ...]
    size_bytes: int
    ended: bool
    """Whether the harness recorded the run to its end."""
    written: dt.datetime
    """When anything of it was written last, in UTC."""


def removal_of(store: RunStore) -> Removal:
    """Say what of a folder is ours. Raises StoreError where it is not certain that a run is."""
    if store.folder.is_symlink():
        raise StoreError(f"{store.folder}: is a link; the run is elsewhere")
    chain = read_chain(store.digests_path)
    if chain.files["plan.json"] != digest_of(store.plan_path):
        raise StoreError(f"{store.folder}: its plan.json is not what was recorded; it stays")
    ours, foreign, size_bytes, written_s = [], [], 0, 0.0
    for name in files_below(store.folder):
        if _is_ours(name, chain.files.keys(), ended=chain.ended):
            ours.append(name)
            status = (store.folder / name).lstat()
            size_bytes += status.st_size
            written_s = max(written_s, status.st_mtime)
        else:
            foreign.append(name)
    written = dt.datetime.fromtimestamp(written_s, dt.UTC)
    return Removal(store, tuple(ours), tuple(foreign), size_bytes, chain.ended, written)


def _is_ours(name: str, recorded: Collection[str], *, ended: bool) -> bool:
    if name in recorded or name in DERIVED or name == "history.jsonl":
        return True
    first, _, rest = name.partition("/")
    if first == "history.parquet":
        return True
    if first == "nodes" and not ended:
        return True
    match = _ASIDE.fullmatch(name)
    return not rest and match is not None and (match[1] in DERIVED or match[1] == "plan.json")


def remove(removal: Removal) -> Iterator[str]:
    """Remove what is ours, and yield a line for what stays. Raises OSError.

    Plan and chain go last: after a crash in the middle the rest is still known to be ours.
    """
    store = removal.store
    folder, proof = store.folder, {store.plan_path.name, store.digests_path.name}
    for name in sorted(removal.ours, key=lambda name: name in proof):
        (folder / name).unlink(missing_ok=True)
    for made in (store.nodes_path, store.parquet_path):
        for parent, _, _ in os.walk(made, topdown=False):
            with contextlib.suppress(OSError):  # not empty
                Path(parent).rmdir()
    for name in removal.foreign:
        yield f"{folder / name}: not made by Kraftprobe; it stays"
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()
