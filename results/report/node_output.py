"""What the nodes wrote to their own output: lines of `nodes/<node>/stdout.log`.

Around a violation, lines are taken by their time: of Kafka's the monotonic clock that the run is
journaled by, of others' the date, to a second or two. Where lines have neither, the last are.
Errors are what loggers of Kafka wrote at level ERROR or FATAL.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from extensions.plain_files import open_plain

LINES_MAX = 20
KINDS_MAX = 40
_KINDS_KEPT = 10_000
"""Of a file that nobody vouches for: kinds beyond are not counted."""
_TAIL_BYTES = 1 << 22
_READ_BYTES = 1 << 28
_LINE_BYTES = 1 << 16
_TIME = re.compile(r"^\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
_NANOSECONDS = re.compile(r"^(\d{1,19})\|")
_NEVER = 10**19
"""Later than any number of 19 digits."""
_RUN = re.compile(r"^(\d{8}T\d{6})Z")
_ERROR = re.compile(rb"\d{1,19}\|(?:ERROR|FATAL)\|([\w.$]{1,200})\|(?:\[.*?\] )?(.{1,300})")
_OWN = re.compile(r"\S*\d\S*|(?<!\S)[\w:-]{20,}(?!\S)")
"""Words of one line alone: numbers, ids."""
_TEXT_MAX = 90
HARMLESS = {
    "Expected partition … with topic id": "logged of each new partition",
    "Exceptionally slow controller event": "the machine is slow",
    "Graceful shutdown of RaftClient failed": "it was stopped while nobody led",
}
"""How errors that a correct release logs begin, and why it does."""


@dataclass
class LoggedError:
    """Errors of one logger that differ in numbers and ids alone."""

    logger: str
    text: str
    count: int = 0
    nodes: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """Why it says nothing of a fault; "" if nothing is known."""
        return next((why for text, why in HARMLESS.items() if self.text.startswith(text)), "")


def errors_logged(nodes_path: Path, nodes: Sequence[str]) -> list[LoggedError]:
    """Count what nodes logged as errors, the most frequent first, known ones last."""
    found: dict[tuple[str, str], LoggedError] = {}
    for node in nodes:
        for logger, message in _errors(nodes_path / node / "stdout.log"):
            text = _OWN.sub("…", message)[:_TEXT_MAX]
            if (logger, text) not in found and len(found) == _KINDS_KEPT:
                continue
            kind = found.setdefault((logger, text), LoggedError(logger.rpartition(".")[2], text))
            kind.count += 1
            if node not in kind.nodes:
                kind.nodes.append(node)
    return sorted(found.values(), key=lambda kind: (kind.reason, -kind.count))


def _errors(path: Path) -> Iterator[tuple[str, str]]:
    with contextlib.suppress(OSError), open_plain(path, follow=False) as file:
        while file.tell() < _READ_BYTES and (line := file.readline(_LINE_BYTES)):
            if error := _ERROR.match(line):
                logger, message = (part.decode("utf-8", "replace") for part in error.groups())
                yield logger, message


def lines_around(
    nodes_path: Path, nodes: Sequence[str], run: str, at_ns: int, origin_ns: int | None = None
) -> dict[str, str]:
    """Return some lines of each node that wrote any; `origin_ns`: the run's clock at time 0."""
    made = _RUN.match(run)
    began = dt.datetime.strptime(made[1], "%Y%m%dT%H%M%S") if made else None  # noqa: DTZ007
    at = None if began is None else began + dt.timedelta(seconds=at_ns / 1e9)
    clock_ns = _NEVER if origin_ns is None else origin_ns + at_ns
    found = {}
    for node in nodes:
        lines = _tail(nodes_path / node / "stdout.log")
        if lines:
            end = max(_position(lines, at, clock_ns) + LINES_MAX // 2, LINES_MAX)
            found[node] = "\n".join(lines[max(0, min(end, len(lines)) - LINES_MAX) : end])
    return found


def _position(lines: Sequence[str], at: dt.datetime | None, clock_ns: int) -> int:
    """Return the first line of that time or later; the end where no line has a time."""
    text = "~" if at is None else at.isoformat(sep=" ", timespec="seconds")
    for number, line in enumerate(lines):
        if time := _TIME.match(line):
            if f"{time[1]} {time[2]}" >= text:
                return number
        elif (nanoseconds := _NANOSECONDS.match(line)) and int(nanoseconds[1]) >= clock_ns:
            return number
    return len(lines)


def _tail(path: Path) -> list[str]:
    try:
        with open_plain(path, follow=False) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
