"""A disk without room for what the harness stores: which error it is, and what to do about it."""

from __future__ import annotations

import errno
from pathlib import Path

from harness.errors import one_line
from results.files import StoreError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The disk is full, the user's quota is used up, or a limit of file sizes is met."""


def lack_of_room(error: BaseException | None) -> OSError | None:
    """Return the error of a full disk that lies behind another, None where there is none."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, OSError) and one.errno in _FULL:
            return one
        waiting += [one.__context__, one.__cause__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
    return None


def run_broken_off(folder: Path, full: OSError) -> StoreError:
    """Say that a run ended because its folder's disk is full."""
    return StoreError(
        f"{_named(full, folder)}: the harness cannot go on with the journal, so the run was broken "
        f"off; its nodes are not to blame. Make room, then judge what was recorded: "
        f"kraftprobe check {folder}"
    )


def not_stored(folder: Path, error: OSError) -> StoreError:
    """Say that a judgement could not be stored, whatever the reason."""
    return StoreError(
        f"{_named(error, folder)}: the judgement could not be stored, so there is no verdict. "
        f"{'Make room' if lack_of_room(error) else 'Mend that'}, then judge again: "
        f"kraftprobe check {folder}"
    )


def _named(error: OSError, folder: Path) -> str:
    code = f" ({errno.errorcode[error.errno]})" if error.errno else ""
    where = "" if error.filename is not None else f"{folder}: "
    return f"{where}{one_line(error)}{code}"
