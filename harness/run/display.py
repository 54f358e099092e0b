"""Shows a run while it runs: a line that is redrawn on a terminal, one now and then elsewhere.

The figures are computed from the run's events as they are journaled. Everything goes to stderr, so
that stdout holds the verdict and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from checkers.history import NEMESIS, Event, EventType
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
    """Nodes that ended by themselves; the verdict says whether a fault explains it."""


class LiveFigures:
    """Computes figures from events. Memory is bounded by the completions of one window."""

    def __init__(self) -> None:
        self._counts: Counter[EventType] = Counter()
        self._open: dict[int | str, int] = {}
        self._window: deque[tuple[int, int]] = deque()
        self._phase = "start"
        self._leader: str | None = None
        self._epoch: int | None = None
        self._leaders_seen = 0
        self._faults: dict[int, str] = {}
        self._ended: set[str] = set()

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
            ended=tuple(sorted(self._ended)),
        )

    def _take_nemesis(self, event: Event) -> None:
        value: dict[str, Any] = event.value if isinstance(event.value, dict) else {}
        if event.f == "phase":
            self._phase = str(value.get("name"))
        elif event.f == "leader":
            self._leader, self._epoch = value.get("leader"), value.get("epoch")
            self._leaders_seen += 1
        elif event.f == "crash":
            self._ended.add(str(value.get("node")))
        elif event.type is not EventType.INVOKE and "entry" in value:
            if value.get("phase") == "inject" and value.get("targets"):
                self._faults[value["entry"]] = f"{event.f} {' '.join(value['targets'])}"
            elif value.get("phase") == "heal" and value.get("verified"):
                self._faults.pop(value["entry"], None)

    def _forget(self, now_ns: int) -> None:
        while self._window and self._window[0][0] < now_ns - WINDOW_NS:
            self._window.popleft()


def _quantile_ms(sorted_ns: list[int], fraction: float) -> float | None:
    if not sorted_ns:
        return None
    position = min(len(sorted_ns) - 1, int(fraction * len(sorted_ns)))
    return sorted_ns[position] / 1e6


_REFRESH_S = 0.25
_LINE_EVERY_S = 5.0


class Display:
    """Renders figures until it is left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

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
        if self._live is None:
            self.say(plain_line(figures))
        else:
            self._live.update(Text(plain_line(figures)), refresh=True)


def plain_line(figures: Figures) -> str:
    """Render the figures as one line of text."""
    parts = [
        f"{figures.elapsed_s:5.0f} s",
        figures.phase,
        f"{figures.ok_per_s:.0f} ok/s ({figures.ok} ok, {figures.fail} fail, {figures.info} info)",
        _latency(figures),
        f"leader {_leader(figures)}",
        f"faults: {', '.join(figures.faults) or 'none'}",
    ]
    if figures.ended:
        parts.append(f"ended: {', '.join(figures.ended)}")
    return " | ".join(parts)


def _latency(figures: Figures) -> str:
    if figures.p50_ms is None or figures.p99_ms is None:
        return "p50 - p99 -"
    return f"p50 {figures.p50_ms:.1f} ms p99 {figures.p99_ms:.1f} ms"


def _leader(figures: Figures) -> str:
    if figures.leader is None:
        return "none yet"
    return f"{figures.leader} epoch {figures.epoch} ({figures.leader_changes} changes)"
