"""Progress of long work on a terminal: a bar, and the steps before a run; elsewhere lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status

from harness.terminal.answers import Shown
from harness.terminal.output import can_redraw

LINE_EVERY_S = 30.0
"""Of a bar without a terminal ..."""
_STEP_EVERY_S = 1.0
"""... and of steps."""


class Bar:
    """How far something is."""

    def __init__(self, bar: Progress, what: str, total: float, *, lines: bool) -> None:
        self._bar, self._lines = bar, lines
        self._task = bar.add_task(what, total=total)
        self._began = self._last = time.monotonic()

    def at(self, done: float, what: str) -> None:
        """Show that so much is done; `what` says it in words."""
        self._bar.update(self._task, completed=done, description=what)
        now = time.monotonic()
        if self._lines and now - self._last >= LINE_EVERY_S:
            self._last = now
            click.echo(f"{now - self._began:.0f} s: {what}", err=True)


def console_of(shown: Shown) -> Console:
    """Where progress is shown: stderr, or nowhere if stdout alone is asked for."""
    return Console(stderr=True, quiet=shown is not Shown.LINES)


@contextmanager
def progress_bar(what: str, total: float, shown: Shown) -> Iterator[Bar]:
    """Show progress on stderr while the block runs, for a person."""
    console = console_of(shown)
    columns = (TextColumn("{task.description}", markup=False), BarColumn())
    is_terminal = can_redraw(console)
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=not is_terminal) as bar:
        yield Bar(bar, what, total, lines=not is_terminal and shown is Shown.LINES)


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
        self._began_s, self._printed_s = time.monotonic(), -_STEP_EVERY_S if at_once else 0.0
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
        elif passed_s - self._printed_s >= _STEP_EVERY_S:
            self._printed_s = passed_s
            self._console.print(
                f"{passed_s:5.1f} s | {line}", markup=False, highlight=False, soft_wrap=True
            )
