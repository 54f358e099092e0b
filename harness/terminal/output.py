"""Standard output and error, and what happens when they can no longer be written.

The reader may close the pipe at any time (`kraftprobe run 2>&1 | head -3`), the terminal may be
closed, the disk under a log may be full. None of this may raise in the middle of printing code or
give an exit code that means a verdict. So both streams are guarded while a command runs: after its
first failure a stream drops its output, and the command decides what the failure means:

- by default the command ends at once and silently with exit code 141, like a program that SIGPIPE
  ends;
- a command whose effect or exit code matters more than its output runs to its end (`finish`);
- a command with running nodes or hours of work is asked to stop, as by SIGTERM
  (`stop_when_unread`).

A stream that fails for another reason than a closed pipe (a full disk, a closed terminal) stops no
command; a failure of stdout is reported on stderr.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

EXIT_UNREAD = 141
"""128 + SIGPIPE: the shell's exit code of a program whose output has no reader."""


class UnreadError(Exception):
    """The reader of the output has closed it, and the command has no other effect."""


class _Guard:
    """A text or binary stream that reports at most one failure."""

    def __init__(self, stream: Any, output: Output, name: str) -> None:
        self._stream, self._output, self._name = stream, output, name

    def write(self, data: Any) -> int:
        """Write, or drop what cannot be written any more."""
        if data != "" and self._name not in self._output.failures:
            try:
                return int(self._stream.write(data))
            except (OSError, ValueError) as error:
                self._output.note_failure(self._name, self._stream, error)
        return len(data)

    def flush(self) -> None:
        """Flush, unless the stream has failed."""
        if self._name not in self._output.failures:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self._output.note_failure(self._name, self._stream, error)

    @property
    def buffer(self) -> _Guard:
        """The binary stream below, which click writes to where the encoding is ASCII."""
        return _Guard(self._stream.buffer, self._output, self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Output:
    """Both streams of a command."""

    def __init__(self) -> None:
        self.failures: dict[str, Exception] = {}
        """By name of the stream."""
        self._on_leaving: Callable[[], None] | None = None
        self._goes_on = False

    def finish(self) -> None:
        """From now on run to the end, even when the output has no reader."""
        self._goes_on = True

    @contextlib.contextmanager
    def stop_when_unread(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` once, maybe from another thread, when a reader closes or has closed it."""
        before, self._on_leaving = self._on_leaving, stop
        try:
            if any(_has_left(error) for error in self.failures.values()):
                stop()
            yield
        finally:
            self._on_leaving = before

    def note_failure(self, name: str, stream: Any, error: Exception) -> None:
        """Record that a stream failed: its output is dropped from now on."""
        left_before = any(_has_left(earlier) for earlier in self.failures.values())
        self.failures[name] = error
        _discard(stream)
        if self._on_leaving is not None:
            if _has_left(error) and not left_before:
                self._on_leaving()
        elif self._goes_on:
            return
        elif _has_left(error):
            raise UnreadError from error
        elif name == "stdout":
            raise OSError(getattr(error, "errno", None), _reason(error), f"<{name}>") from error

    def stdout_problem(self) -> str | None:
        """Return why stdout could not be written; None if it could, or its reader closed it."""
        error = self.failures.get("stdout")
        if error is None or _has_left(error):
            return None
        return _reason(error)


_current = Output()


def current() -> Output:
    """Return the output of the command that runs."""
    return _current


@contextlib.contextmanager
def guard() -> Iterator[Output]:
    """Guard stdout and stderr of this process."""
    global _current  # noqa: PLW0603  (as are the two streams)
    _open_descriptors()
    streams, before = (sys.stdout, sys.stderr), _current
    output = _current = Output()
    sys.stdout, sys.stderr = (
        _Guard(stream, output, name)
        for stream, name in zip(streams, ("stdout", "stderr"), strict=True)
    )
    try:
        yield output
    finally:
        _current = before
        sys.stdout, sys.stderr = streams


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _has_left(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def _discard(stream: Any) -> None:
    """Redirect the descriptor to /dev/null: a flush at exit of buffered output would fail."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


def _open_descriptors() -> None:
    """Open the standard descriptors that are closed, or the next opened file would be stdout."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def wants_colour() -> bool | None:
    """Return whether click may colour; None: where the stream is a terminal."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def can_redraw(console: Console) -> bool:
    """Whether a line or bar can be drawn over itself there: a real terminal that moves its cursor.

    `FORCE_COLOR` makes rich take any file for a terminal, and a log is none.
    """
    return console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
