"""Shows the steps before a run on stderr.

On a terminal a status line shows the step under way; elsewhere steps are plain lines, at most one a
second, so that a log shows the slow steps and is not flooded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from harness.terminal.colours import can_redraw

_LINE_EVERY_S = 1.0


class Steps:
    """Shows steps; used around everything that may take more than a second."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._status: Status | None = None
        self._began_s = time.monotonic()
        self._printed_s = 0.0

    @contextmanager
    def show(self, *, at_once: bool) -> Iterator[None]:
        """Show the steps of the block; a terminal's status line disappears at its end.

        `at_once`: print the first step, too, since the block will take seconds.
        """
        self._began_s, self._printed_s = time.monotonic(), -_LINE_EVERY_S if at_once else 0.0
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
        """Show the step that begins now."""
        passed_s = time.monotonic() - self._began_s
        if self._status is not None:
            self._status.update(escape(line))
        elif passed_s - self._printed_s >= _LINE_EVERY_S:
            self._printed_s = passed_s
            self._console.print(
                f"{passed_s:5.1f} s | {line}", markup=False, highlight=False, soft_wrap=True
            )
