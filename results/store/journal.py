"""The journal: a run's history on disk, one JSON object a line, written as things happen.

Format of `history.jsonl`: UTF-8, one `checkers.history.Event` a line with the fields of that
class, fields that are null left out, sealed with a checksum (`checkers.history.json_text`),
every line ended by a newline. `index` counts the lines from 0 and `time_ns` never goes back.

What survives: an event is in the file before `JournalWriter.append` returns, by one `write()` of
the whole line to a file opened for appending, so a kill of the harness at any moment leaves every
event that was appended, and at most one torn line at the very end. There is no fsync for each
line: the machine that the harness runs on is not what is under test, and an fsync a line would
disturb the disks of the nodes beside it. Closing does fsync.

A reader drops a torn last line and says how many bytes that were. An invocation is journaled
before it is sent, so the torn line of an invocation is an operation that never began, and that of
a completion is an operation with a result that nobody saw. Anything else that is wrong with the
file means that it is not ours or was changed, and is refused: a reader that skips what it does not
understand would call a damaged history right.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self

from checkers.history import Event, HistoryError, seconds
from checkers.history.formats import event_from_json
from checkers.history.json_text import (
    FIELD,
    JsonError,
    is_changed,
    may_be_torn,
    parse,
    render,
    seal,
)
from extensions.plain_files import read_lines

LINE = b'{"index":'
"""How every line of a journal begins."""


class JournalWriter:
    """Appends events to a new journal; each is in the file when `append` returns.

    Raises FileExistsError where there is a journal already (a history is never overwritten) and
    OSError where the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._next_index = 0
        self._last_time_ns = 0
        self._error: OSError | None = None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd: int | None = os.open(path, flags, 0o644)

    def append(self, event: Event) -> None:
        """Write one event.

        Raises HistoryError when its index is not the next one or its time goes back, TypeError or
        ValueError when its value is no JSON or the journal is closed, OSError when the disk
        refuses. Then the journal takes nothing more, since its last line may be torn, and says
        the same of every event that follows.
        """
        if self._fd is None:
            raise ValueError(f"{self.path}: the journal is closed")
        if self._error is not None:
            raise OSError(self._error.errno, self._error.strerror, str(self.path))
        if event.index != self._next_index:
            raise HistoryError(
                f"{self.path}: event {event.index} appended where {self._next_index} is next"
            )
        if event.time_ns < self._last_time_ns:
            raise HistoryError(
                f"{self.path}: event {event.index} at {seconds(event.time_ns)} comes after one at "
                f"{seconds(self._last_time_ns)}"
            )
        line = encode_event(event)
        try:
            while line:  # a disk that is about to be full takes a part, and then says why
                line = line[os.write(self._fd, line) :]
        except OSError as error:
            self._error = error
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._next_index += 1
        self._last_time_ns = event.time_ns

    def close(self) -> None:
        """Make the journal durable and close it; closing twice is allowed."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def encode_event(event: Event) -> bytes:
    """One line of a journal, with its newline. ASCII, so that no reader trips over U+2028."""
    fields: dict[str, Any] = {
        "index": event.index,
        "time_ns": event.time_ns,
        "process": event.process,
        "type": str(event.type),
        "f": event.f,
    }
    for name in ("key", "value", "error", "node", "offset", "epoch"):
        value = getattr(event, name)
        if value is not None:
            fields[name] = value
    return seal(json.dumps(fields, separators=(",", ":"), allow_nan=False))


def read_journal(path: Path) -> tuple[list[Event], int]:
    """Every whole event of a journal, and the bytes of a torn last line (0 where there is none).

    Raises HistoryError, naming file and line, when anything but a torn last line is wrong;
    OSError when the file cannot be read.
    """
    events: list[Event] = []
    dropped_bytes = 0
    last_time_ns = 0
    for number, ended_line in enumerate(read_lines(path), start=1):
        line = ended_line.removesuffix(b"\n")
        try:
            event = decode_event(line)
        except HistoryError as error:
            # A JSON object is never a proper prefix of another, so a last line without newline
            # that parses is whole; one that only lacks its end is torn.
            if line is ended_line and may_be_torn(line, LINE):
                dropped_bytes = len(line)
                break
            raise HistoryError(f"{path}, line {number}: {error}") from error
        if event.index != len(events):
            raise HistoryError(
                f"{path}, line {number}: index is {event.index} where {len(events)} is next"
            )
        if event.time_ns < last_time_ns:
            raise HistoryError(
                f"{path}, line {number}: time goes back, to {seconds(event.time_ns)}"
            )
        last_time_ns = event.time_ns
        events.append(event)
    return events, dropped_bytes


def decode_event(line: bytes) -> Event:
    """Return the event of one line, whatever stands around it. Raises HistoryError."""
    fields = _parse_object(line)
    if is_changed(line):
        raise HistoryError("its checksum is that of another line: it was changed")
    fields.pop(FIELD, None)
    event = event_from_json(fields)
    if event.index < 0 or event.time_ns < 0:
        raise HistoryError("index and time_ns must be numbers from 0 on")
    return event


def _parse_object(line: bytes) -> dict[str, Any]:
    try:
        fields = parse(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise HistoryError(f"no JSON (not UTF-8): {render(line)}") from error
    except JsonError as error:
        raise HistoryError(f"no JSON ({error}): {render(line)}") from error
    if not isinstance(fields, dict):
        raise HistoryError(f"no JSON object: {render(line)}")
    return fields
