"""Which exceptions are a user's or the environment's business: one line, no traceback."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir


class UsageError(Exception):
    """What was asked for cannot be done; one line says why."""


class ImpossibleError(UsageError):
    """A plan asks for what cannot work here; one line for each of its faults."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)


EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def is_expected(error: Exception) -> bool:
    """Return whether the error's message says all there is to say."""
    if isinstance(error, UsageError | OSError):
        return True
    from harness.expected import EXPECTED  # noqa: PLC0415  (imports most of the program)

    return isinstance(error, EXPECTED)


def one_line(error: BaseException) -> str:
    """Render an error as one line, whatever its message holds."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def save_traceback(error: BaseException) -> Path:
    """Write the traceback of an error that nobody expected to a file, and say where."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    path = Path(gettempdir()) / f"kraftprobe-error-{stamp}.txt"
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return path
