"""Shows what happens before a run: each step at once, on stderr.

On a terminal the step under way stands in one line that moves; elsewhere steps are plain lines, now
and then, so that a log shows what takes long and is not flooded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from harness.colours import can_redraw

_LINE_EVERY_S = 1.0


class Steps:
    """Says what is done; used around everything that may take more than a second."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._status: Status | None = None
        self._began_s = time.monotonic()
        self._told_s = 0.0

    @contextmanager
    def shown(self, *, at_once: bool) -> Iterator[None]:
        """Show steps until left; what was shown of the last one on a terminal goes.

        `at_once`: a line for the first step, too, since all of it will take seconds.
        """
        self._began_s, self._told_s = time.monotonic(), -_LINE_EVERY_S if at_once else 0.0
        if can_redraw(self._console):
            self._status = self._console.status("")
            self._status.start()
        try:
            yield
        finally:
            if self._status is not None:
                self._status.stop()
                self._status = None

    def step(self, line: str) -> None:
        """Say what is done now."""
        passed_s = time.monotonic() - self._began_s
        if self._status is not None:
            self._status.update(escape(line))
        elif passed_s - self._told_s >= _LINE_EVERY_S:
            self._told_s = passed_s
            self._console.print(
                f"{passed_s:5.1f} s | {line}", markup=False, highlight=False, soft_wrap=True
            )
