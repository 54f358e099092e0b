"""Recognises a full disk below the harness's own files, and reports it with a remedy."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from harness.errors import one_line
from results.store.files import StoreError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The disk is full, the user's quota is used up, or the limit of file sizes is reached."""


def lack_of_room(error: BaseException | None) -> OSError | None:
    """Return the error of a full disk among an error's causes, contexts and group members."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        raised = waiting.pop()
        if raised is None or id(raised) in seen:
            continue
        seen.add(id(raised))
        if isinstance(raised, OSError) and raised.errno in _FULL:
            return raised
        waiting += [raised.__context__, raised.__cause__]
        if isinstance(raised, BaseExceptionGroup):
            waiting += raised.exceptions
    return None


def run_broken_off(folder: Path, full: OSError) -> StoreError:
    """Report that a run ended because its folder's disk is full."""
    return StoreError(
        f"{_describe(full, folder)}: the harness cannot write its journal, so the run was aborted; "
        f"its nodes are not to blame. Make room, then judge what was recorded: "
        f"kraftprobe check {folder}"
    )


@contextlib.contextmanager
def full_disk_of(folder: Path) -> Iterator[None]:
    """Name the folder that is written to when its disk is full: a failed write names no file."""
    try:
        yield
    except OSError as error:
        if lack_of_room(error) is not error:
            raise
        raise StoreError(f"{_describe(error, folder)}: make room, then run it again") from error


def not_stored(folder: Path, error: OSError) -> StoreError:
    """Report that a judgement could not be stored."""
    return StoreError(
        f"{_describe(error, folder)}: the judgement could not be stored, so there is no verdict. "
        f"{'Make room' if lack_of_room(error) else 'Repair that'}, then judge again: "
        f"kraftprobe check {folder}"
    )


def _describe(error: OSError, folder: Path) -> str:
    code = f" ({errno.errorcode[error.errno]})" if error.errno else ""
    where = "" if error.filename is not None else f"{folder}: "
    return f"{where}{one_line(error)}{code}"
