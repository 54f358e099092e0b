"""Standard output and error while somebody reads them, and when nobody does any more.

A reader may leave at any time (`kraftprobe run 2>&1 | head -3`), a terminal may be closed, the disk
under a log may be full. None of this may show up as an error in the middle of whatever prints, or
as an exit code that means a verdict. So while a command runs both streams are guarded: after the
first failure they print nowhere, and what that failure means is the command's business:

- as a rule the command ends at once, quietly, with exit code 141, as a program that SIGPIPE ends;
- one whose exit code or deeds matter more than what it prints goes on to its end (`finish`);
- one that nodes or hours of work hang on is asked to stop, as by SIGTERM (`needed`).

A stream that fails for another reason than a reader that left (a full disk, a closed terminal) asks
nothing to stop; of stdout it is an error, and is reported on stderr.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

EXIT_UNREAD = 141
"""128 + SIGPIPE: what a shell reports of a program whose output nobody reads."""


class UnreadError(Exception):
    """The reader of the output has left, and there is nothing to be done without one."""


class _Guard:
    """A text or binary stream that fails once at most."""

    def __init__(self, stream: Any, output: Output, name: str) -> None:
        self._stream, self._output, self._name = stream, output, name

    def write(self, data: Any) -> int:
        """Write, or drop what cannot be written any more."""
        if data != "" and self._name not in self._output.failures:
            try:
                return int(self._stream.write(data))
            except (OSError, ValueError) as error:
                self._output.failed(self._name, self._stream, error)
        return len(data)

    def flush(self) -> None:
        """Flush, unless the stream has failed."""
        if self._name not in self._output.failures:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self._output.failed(self._name, self._stream, error)

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
        """From now on go on to the end, whether anybody reads what is printed or not."""
        self._goes_on = True

    @contextlib.contextmanager
    def needed(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop`, once and maybe from another thread, when a reader leaves or has left."""
        before, self._on_leaving = self._on_leaving, stop
        try:
            if any(_has_left(error) for error in self.failures.values()):
                stop()
            yield
        finally:
            self._on_leaving = before

    def failed(self, name: str, stream: Any, error: Exception) -> None:
        """Take up that a stream failed: it prints nowhere from now on."""
        left_before = any(_has_left(one) for one in self.failures.values())
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

    def unreported(self) -> str | None:
        """Why stdout could not be written; None if it could, or its reader left."""
        error = self.failures.get("stdout")
        if error is None or _has_left(error):
            return None
        return _reason(error)


_current = Output()


def current() -> Output:
    """Return the output of the command that runs."""
    return _current


@contextlib.contextmanager
def guarded() -> Iterator[Output]:
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
    """Let the descriptor lead nowhere: what is buffered yet would fail when the process ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


def _open_descriptors() -> None:
    """Open what this process was started without, or the next file would be its stdout."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
