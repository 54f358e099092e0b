"""What the nodes wrote to their own output around a violation: lines of `nodes/<node>/stdout.log`.

Where lines carry a time, as those of Kafka do, the ones nearest to the violation are taken: by the
second in which the run was made, so to a second or two. Else the last lines are.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path

from extensions.plain_files import open_plain

LINES_MAX = 20
_TAIL_BYTES = 1 << 22
_TIME = re.compile(r"^\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
_RUN = re.compile(r"^(\d{8}T\d{6})Z")


def lines_around(nodes_path: Path, nodes: Sequence[str], run: str, at_ns: int) -> dict[str, str]:
    """Return some lines of each node that wrote any."""
    made = _RUN.match(run)
    began = dt.datetime.strptime(made[1], "%Y%m%dT%H%M%S") if made else None  # noqa: DTZ007
    at = None if began is None else began + dt.timedelta(seconds=at_ns / 1e9)
    found = {}
    for node in nodes:
        lines = _tail(nodes_path / node / "stdout.log")
        if lines:
            end = max(_position(lines, at) + LINES_MAX // 2, LINES_MAX)
            found[node] = "\n".join(lines[max(0, min(end, len(lines)) - LINES_MAX) : end])
    return found


def _position(lines: Sequence[str], at: dt.datetime | None) -> int:
    """Return the first line of that time or later; the end where no line has a time."""
    if at is None:
        return len(lines)
    text = at.isoformat(sep=" ", timespec="seconds")
    for number, line in enumerate(lines):
        time = _TIME.match(line)
        if time is not None and f"{time[1]} {time[2]}" >= text:
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
