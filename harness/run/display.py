"""Shows a run while it runs: a live panel on a terminal, a plain line now and then elsewhere.

Everything goes to stderr, so that stdout holds the verdict and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.run.live_figures import Figures, LiveFigures
from harness.terminal.output import can_redraw

_REFRESH_S = 0.25
_LINE_EVERY_S = 5.0


class Display:
    """Renders figures until it is left. `title` names the run; a mutant is named in red."""

    def __init__(
        self, console: Console, title: str, duration_s: float, mutant: str | None = None
    ) -> None:
        self._console = console
        self._title = title
        self._duration_s = duration_s
        self._mutant = mutant
        self._live: Live | None = None
        self._faults_began_s: float | None = None

    def __enter__(self) -> Self:
        if can_redraw(self._console):
            # Refreshed by `refresh` on the run's own loop; no thread draws beside it.
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, line: str) -> None:
        """Print one line above whatever is shown."""
        self._console.print(Text(line), highlight=False, soft_wrap=True)

    async def refresh(self, live: LiveFigures, now_ns: Callable[[], int]) -> None:
        """Redraw the figures periodically until cancelled."""
        while True:
            self.show(live.figures(now_ns()))
            await asyncio.sleep(_REFRESH_S if self._live is not None else _LINE_EVERY_S)

    def show(self, figures: Figures) -> None:
        """Show the figures now."""
        if figures.phase == "faults" and self._faults_began_s is None:
            self._faults_began_s = figures.elapsed_s
        if self._live is None:
            self._console.print(Text(plain_line(figures)), highlight=False, soft_wrap=True)
        else:
            self._live.update(self._panel(figures), refresh=True)

    def _panel(self, figures: Figures) -> Panel:
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(ratio=1)
        done_s = 0.0
        if self._faults_began_s is not None:
            done_s = min(self._duration_s, figures.elapsed_s - self._faults_began_s)
        if figures.phase in {"heal", "final-reads", "stop", "evidence"}:
            done_s = self._duration_s
        table.add_row("phase", Text(f"{figures.phase}, {figures.elapsed_s:.0f} s"))
        table.add_row("progress", ProgressBar(total=self._duration_s, completed=done_s))
        table.add_row("operations", Text(_operations(figures)))
        table.add_row("latency", Text(_latency(figures)))
        table.add_row("leader", Text(_leader(figures)))
        faults = ", ".join(figures.faults) or "none"
        table.add_row("faults", Text(faults, style="yellow" if figures.faults else ""))
        if figures.ended:
            table.add_row("ended by a fault", Text(", ".join(figures.ended), style="yellow"))
        if figures.crashes:
            table.add_row("crashed", Text(", ".join(figures.crashes), style="bold red"))
        title = Text(self._title)
        if self._mutant is not None:
            title.append(f"  MUTANT {self._mutant}", style="bold red")
        return Panel(table, title=title, title_align="left")


def plain_line(figures: Figures) -> str:
    """Render the figures as one line of text."""
    parts = [
        f"{figures.elapsed_s:5.0f} s",
        figures.phase,
        _operations(figures),
        _latency(figures),
        f"leader {_leader(figures)}",
        f"faults: {', '.join(figures.faults) or 'none'}",
    ]
    if figures.ended:
        parts.append(f"ended by a fault: {', '.join(figures.ended)}")
    if figures.crashes:
        parts.append(f"CRASHED: {', '.join(figures.crashes)}")
    return " | ".join(parts)


def _operations(figures: Figures) -> str:
    return (
        f"{figures.ok_per_s:.0f} ok/s ({figures.ok} ok, {figures.fail} fail, {figures.info} info)"
    )


def _latency(figures: Figures) -> str:
    if figures.p50_ms is None or figures.p99_ms is None:
        return "p50 - p99 -"
    return f"p50 {figures.p50_ms:.1f} ms p99 {figures.p99_ms:.1f} ms"


def _leader(figures: Figures) -> str:
    if figures.leader is None:
        return "none yet"
    return f"{figures.leader} epoch {figures.epoch} ({figures.leader_changes} changes)"
