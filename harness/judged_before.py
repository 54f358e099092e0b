"""What this code judged before, from the same files, need not be judged again.

The memory is in the user's state folder (XDG_STATE_HOME), outside of every run: who can write into
a run's folder, or carries one here, can put nothing into it. One file for each run folder and use:

| field | meaning |
|---|---|
| `key` | digest of all that a judgement rests on |
| `outputs` | `check`: SHA-256 of each file that the judgement wrote, by its path in the folder |
| `results` | `gate`: the judgement, for the gate trusts no verdict that lies in the run's folder |

The key covers the path of the run's folder (explanations name files), the SHA-256 of every file in
it but those that a judgement writes, all files of Kraftprobe's packages, Python, and name and
version of all that is installed. So a changed journal, log, trace or plan, a file more or less,
another version of NumPy: each is another key, and the run is judged. A verdict is taken only if
its files are those that the judgement wrote, the chain of digests among them, byte for byte.

Not kept is what a key could not cover, and such a run is judged each time:

- a run of which a check is UNKNOWN: a limit of time or memory may be the cause;
- a folder that changed while it was judged (it is digested before and after), or that holds a link
  or what cannot be read;
- anything where a package adds to what plans can name: its code has no digest.

And nothing is looked up or kept in a memory that is another user's or that others can write.
What the memory cannot withstand is a user who edits it, or code that runs as that user: they could
edit Kraftprobe as well. It is not to be carried between machines, as in a cache of CI jobs.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from checkers.verdict import EXIT_CODES, CheckResult, Status
from harness.errors import state_folder
from harness.source import source_digest
from results.digests import digest_of, files_below
from results.files import StoreError, read_json_object, write_atomically
from results.model import RunResults
from results.store import DERIVED, RunStore

VERSION = 1
_GROUPS = "kraftprobe."
"""What the groups of entry points begin with by which packages add to Kraftprobe."""
_BESIDE = frozenset({"signature.json"})
"""Neither read nor written by a judgement."""


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a run's folder: name -> SHA-256."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


class JudgedBefore:
    """The memory, for as long as one command runs; and how often it served."""

    def __init__(self, *, look: bool = True) -> None:
        """`look` false: nothing is taken from before, but what is judged now is kept."""
        self.judged = 0
        self.taken = 0
        self._look = look
        self._keys: dict[tuple[str, Path], str] = {}
        """Of each run that is to be judged, as its files were before."""

    @property
    def line(self) -> str:
        """Say how many runs were judged and how many were not; nothing where all were."""
        if not self.taken:
            return ""
        return (
            f"{self.judged} judged now; {self.taken} judged before by the same code from the same "
            "files, and not again (--fresh judges all)"
        )

    def recall(self, folder: Path) -> RunResults | None:
        """Return the stored judgement of a run if it is that of this code and of these files."""
        kept, files = self._recall("check", folder)
        if kept is None or files is None or kept.get("outputs") != files.outputs:
            return None
        try:
            results = RunStore(folder).read_results()
        except StoreError:
            return None
        self.taken += 1
        return results

    def keep(self, folder: Path, exit_code: int) -> None:
        """Remember that a run was judged just now, and what that wrote."""
        self.judged += 1
        if self._memory is None:
            return
        with suppress(StoreError):  # then there is nothing to keep
            results = RunStore(folder).read_results()
            files = _files_of(folder)
            if files is not None and EXIT_CODES[results.status] == exit_code:
                self._keep("check", folder, files, results, {"outputs": dict(files.outputs)})

    def recomputed(
        self, store: RunStore, recompute: Callable[[RunStore], RunResults]
    ) -> RunResults:
        """Judge a run anew for the gate, or return what that gave before."""
        kept, _ = self._recall("gate", store.folder)
        if kept is not None:
            with suppress(StoreError, KeyError, TypeError):
                found = RunResults.from_json(kept["results"])
                self.taken += 1
                return replace(found, judging={**found.judging, "taken": True})
        found = recompute(store)
        self.judged += 1
        files = _files_of(store.folder) if self._memory is not None else None
        if files is not None:
            stripped = replace(found, checks=tuple(map(_stripped, found.checks)), inputs={})
            self._keep("gate", store.folder, files, found, {"results": stripped.to_json()})
        return found

    def _recall(self, use: str, folder: Path) -> tuple[dict[str, Any] | None, _Files | None]:
        place = folder.resolve()
        files = _files_of(place) if self._memory is not None else None
        if files is None:
            return None, None
        key = self._keys[use, place] = self._key(use, place, files)
        if not self._look:
            return None, files
        try:
            kept = read_json_object(self._path(use, place))
        except StoreError:
            return None, files
        return (kept if kept.get("key") == key else None), files

    def _keep(
        self, use: str, folder: Path, files: _Files, results: RunResults, fields: Mapping[str, Any]
    ) -> None:
        place = folder.resolve()
        key = self._keys.get((use, place))
        unsure = any(check.status is Status.UNKNOWN for check in results.checks)
        if key is None or unsure or key != self._key(use, place, files):
            return
        document = json.dumps({"version": VERSION, "run": str(place), "key": key, **fields})
        with suppress(OSError):  # then it is judged again the next time
            write_atomically(self._path(use, place), document.encode("ascii"))

    def _path(self, use: str, place: Path) -> Path:
        assert self._memory is not None, "asked for with a memory only"
        name = hashlib.sha256(f"{use}\0{place}".encode("utf-8", "surrogateescape")).hexdigest()
        return self._memory / f"{name[:32]}.json"

    def _key(self, use: str, place: Path, files: _Files) -> str:
        settings = sorted(item for item in os.environ.items() if item[0].startswith("KRAFTPROBE"))
        inputs = sorted(files.inputs.items())
        rests_on = [VERSION, use, str(place), code(), settings, inputs]
        return hashlib.sha256(json.dumps(rests_on).encode("ascii")).hexdigest()

    @cached_property
    def _memory(self) -> Path | None:
        """The folder; None where there is none that is the user's alone, or that may be used."""
        # 20 ms, which a command that judges a lone file need not spend.
        from importlib import metadata  # noqa: PLC0415

        if any(group.startswith(_GROUPS) for group in metadata.entry_points().groups):
            return None
        try:
            folder = state_folder() / "judged"
            folder.mkdir(mode=0o700, exist_ok=True)
            if _is_private(folder) and _is_private(folder.parent):
                return folder
        except (OSError, RuntimeError):
            pass
        return None


@cache
def code() -> str:
    """Return a digest of the code of this process, its Python and what is installed."""
    from importlib import metadata  # noqa: PLC0415  (as above)

    installed = sorted(f"{d.metadata['Name']} {d.version}" for d in metadata.distributions())
    parts = [source_digest(data=True), platform.python_version(), *installed]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _is_private(folder: Path) -> bool:
    found = folder.lstat()
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _files_of(folder: Path) -> _Files | None:
    """Digest a run's folder; None where something in it has no digest."""
    store = RunStore(folder)
    inputs: dict[str, str] = {}
    outputs: dict[str, str] = {}
    for name in files_below(folder):
        sha256 = digest_of(folder / name).sha256
        if sha256 is None:
            return None
        if name in DERIVED - _BESIDE or name.startswith(f"{store.parquet_path.name}/"):
            outputs[name] = sha256
        elif name not in _BESIDE:
            inputs[name] = sha256
    return _Files(inputs, outputs)


def _stripped(check: CheckResult) -> CheckResult:
    """Return what the gate compares of a check."""
    return CheckResult(
        check.checker, check.status, check.summary, key=check.key, operations=check.operations
    )
