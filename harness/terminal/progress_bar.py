"""Progress of long work: a bar on a terminal, elsewhere a line every half a minute."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from harness.terminal.answers import Shown
from harness.terminal.colours import can_redraw

LINE_EVERY_S = 30.0


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


@contextmanager
def progress_bar(what: str, total: float, shown: Shown) -> Iterator[Bar]:
    """Show progress on stderr while the block runs, for a person."""
    console = Console(stderr=True, quiet=shown is not Shown.LINES)
    columns = (TextColumn("{task.description}"), BarColumn())
    is_terminal = can_redraw(console)
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=not is_terminal) as bar:
        yield Bar(bar, what, total, lines=not is_terminal and shown is Shown.LINES)
