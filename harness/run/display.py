"""Shows a run while it runs: a live panel on a terminal, a plain line now and then elsewhere.

The figures are computed from the run's events as they are journaled. Everything goes to stderr, so
that stdout holds the verdict and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from checkers.history import NEMESIS, Event, EventType
from checkers.nodes.agreement import may_be_ended, storage_failed
from cluster.values import valueclass
from harness.run.generators.base import NANOSECONDS
from harness.terminal.output import can_redraw

WINDOW_NS = 5 * NANOSECONDS


@valueclass
class Figures:
    """The figures of one moment. Rates and latencies are of `ok` operations in `WINDOW_NS`."""

    elapsed_s: float
    phase: str
    ok: int
    fail: int
    info: int
    ok_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    leader: str | None
    epoch: int | None
    leader_changes: int
    faults: tuple[str, ...]
    """Active ones, as `kill n2`."""
    ended: tuple[str, ...]
    """Nodes that ended themselves over a fault that may end a node: their storage failed."""
    crashes: tuple[str, ...]
    """Nodes whose death no fault explains."""


class LiveFigures:
    """Computes figures from events. Memory is bounded by the completions of one window."""

    def __init__(self, *, says_why: bool = True) -> None:
        """`says_why`: whether nodes that end over their storage say so; else the fault does."""
        self._says_why = says_why
        self._counts: Counter[EventType] = Counter()
        self._open: dict[int | str, int] = {}
        self._window: deque[tuple[int, int]] = deque()
        self._phase = "start"
        self._leader: str | None = None
        self._epoch: int | None = None
        self._leaders_seen = 0
        self._faults: dict[int, str] = {}
        self._deaths: list[tuple[str, bool]] = []
        """(node that died without being killed, whether its last output blames its storage)."""
        self._may_end: set[str] = set()
        self._refusals: Counter[str] = Counter()
        """Node -> how often a fault saw it refuse the files that it had damaged."""

    def take(self, event: Event) -> None:
        """Count one event."""
        if event.process == NEMESIS:
            self._take_nemesis(event)
            return
        if event.type is EventType.INVOKE:
            self._open[event.process] = event.time_ns
            return
        self._counts[event.type] += 1
        began_ns = self._open.pop(event.process, event.time_ns)
        if event.type is EventType.OK:
            self._window.append((event.time_ns, event.time_ns - began_ns))
        self._forget(event.time_ns)

    def figures(self, now_ns: int) -> Figures:
        """Compute the figures of this moment."""
        self._forget(now_ns)
        ended, crashed = self._dead()
        latencies = sorted(latency for _, latency in self._window)
        window_s = min(WINDOW_NS, max(now_ns, 1)) / NANOSECONDS
        return Figures(
            elapsed_s=now_ns / NANOSECONDS,
            phase=self._phase,
            ok=self._counts[EventType.OK],
            fail=self._counts[EventType.FAIL],
            info=self._counts[EventType.INFO],
            ok_per_s=len(latencies) / window_s,
            p50_ms=_quantile_ms(latencies, 0.50),
            p99_ms=_quantile_ms(latencies, 0.99),
            leader=self._leader,
            epoch=self._epoch,
            leader_changes=max(0, self._leaders_seen - 1),
            faults=tuple(self._faults.values()),
            ended=tuple(sorted(ended)),
            crashes=tuple(sorted(crashed)),
        )

    def _dead(self) -> tuple[set[str], set[str]]:
        """Name the nodes that ended by a fault that may end them, and those that just ended."""
        ended: set[str] = set()
        crashed: set[str] = set()
        refusals = Counter(self._refusals)
        for node, excused in self._deaths:
            is_meant = node in self._may_end and (excused or refusals[node] > 0)
            refusals[node] -= not excused
            (ended if is_meant else crashed).add(node)
        return ended, crashed

    def _take_nemesis(self, event: Event) -> None:
        value: dict[str, Any] = event.value if isinstance(event.value, dict) else {}
        self._may_end |= may_be_ended(event)
        self._refusals.update(_refusing(value))
        if event.f == "phase":
            self._phase = str(value.get("name"))
        elif event.f == "leader":
            self._leader, self._epoch = value.get("leader"), value.get("epoch")
            self._leaders_seen += 1
        elif event.f == "crash":
            excused = not self._says_why or storage_failed(value.get("output_tail"))
            self._deaths.append((str(value.get("node")), excused))
        elif event.type is not EventType.INVOKE and "entry" in value:
            if value.get("phase") == "inject" and value.get("targets"):
                self._faults[value["entry"]] = f"{event.f} {' '.join(value['targets'])}"
            elif value.get("phase") == "heal" and value.get("verified"):
                self._faults.pop(value["entry"], None)

    def _forget(self, now_ns: int) -> None:
        while self._window and self._window[0][0] < now_ns - WINDOW_NS:
            self._window.popleft()


def _refusing(value: Mapping[str, Any]) -> Iterator[str]:
    """Name the nodes that an injection saw refuse their damaged files."""
    detail = value.get("detail")
    nodes = detail.get("nodes") if isinstance(detail, dict) else None
    if value.get("phase") == "inject" and isinstance(nodes, dict):
        for node, seen in nodes.items():
            if isinstance(seen, dict) and seen.get("refused"):
                yield str(node)


def _quantile_ms(sorted_ns: list[int], fraction: float) -> float | None:
    if not sorted_ns:
        return None
    position = min(len(sorted_ns) - 1, int(fraction * len(sorted_ns)))
    return sorted_ns[position] / 1e6


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
