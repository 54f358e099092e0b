"""Figures of a run while it runs, computed from its events as they are journaled."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

from checkers.history import NEMESIS, Event, EventType
from checkers.nodes.agreement import may_be_ended, storage_failed
from cluster.values import valueclass
from harness.run.generators.base import NANOSECONDS

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
