"""The standings of real nodes, from their traces, read while they are written.

A node of this repository writes the line of an event before it goes on
(`cluster.node.runtime.trace`), so the standings lag by at most one poll. The trace of another
system may be made from what its nodes write (`cluster.systems.base.TraceReader`), when they write
it. Events of several nodes between two polls are applied in the order of their times, which are
comparable where the nodes share a clock.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from checkers.evidence.standings import DEAD, Standings
from checkers.evidence.trace_fields import wrong_field
from cluster.backends.base import Backend, BackendError, NodeState
from cluster.systems.base import Layout, TraceReader
from nemeses.at_once import OutOfTimeError, in_time

POLL_S = 0.02
STATES_S = 0.2
"""Interval of asking for the processes' states: a trace does not show that its node was killed."""
_STATE_BOUND_S = 5.0
"""Bound on each of these questions."""


class Followed(Standings):
    """Standings that follow the nodes of a run."""

    async def follow(self) -> None:
        """Follow the nodes until cancelled."""
        raise NotImplementedError


class TraceTail(Followed):
    """Follows the traces that the nodes of a backend write."""

    def __init__(self, backend: Backend, layout: Layout) -> None:
        super().__init__(backend.nodes)
        self._backend = backend
        self._layout = layout
        self._tails = {node: _Tail() for node in self.nodes}

    async def follow(self) -> None:
        """Poll until cancelled."""
        loop = asyncio.get_running_loop()
        ask_at_s = 0.0
        while True:
            await self.poll()
            if loop.time() >= ask_at_s:
                await self._ask_states()
                ask_at_s = loop.time() + STATES_S
            await asyncio.sleep(POLL_S)

    async def poll(self) -> None:
        """Apply the events written since the last poll."""
        read = await asyncio.gather(*(self._read(node) for node in self.nodes))
        news = [
            (event, node) for node, events in zip(self.nodes, read, strict=True) for event in events
        ]
        for event, node in sorted(news, key=lambda row: row[0]["t"]):
            fields = {key: value for key, value in event.items() if key not in _OF_THE_LINE}
            if event["e"] == "start":
                self.note_start(node)
            self.take_event(node, event["e"], fields)

    async def _read(self, node: str) -> list[dict[str, Any]]:
        tail = self._tails[node]
        try:
            data = await self._backend.read_trace(node, tail.position)
        except BackendError:
            return []  # what was written meanwhile comes when its host can be reached again
        if data and not tail.position:
            tail.reader = self._layout.trace_reader(self._backend.node_folder(node))
        return tail.take(data)

    async def _ask_states(self) -> None:
        for node, standing in self.nodes.items():
            try:
                state = await in_time(self._backend.state(node), _STATE_BOUND_S)
            except (BackendError, OutOfTimeError):
                continue
            if state is NodeState.DEAD and standing.state != DEAD:
                self.note_end(node)


_OF_THE_LINE = frozenset({"t", "w", "n", "e", "crc"})


class _Tail:
    """What one node writes, and the position up to which it was read."""

    def __init__(self) -> None:
        self.position = 0
        self.reader: TraceReader | None = None
        self._half = b""
        """The beginning of the trace's last line."""

    def take(self, data: bytes) -> list[dict[str, Any]]:
        """Return the events of new whole lines; the checks report lines that are no events."""
        self.position += len(data)
        lines = data if self.reader is None else self.reader.take(data)
        *whole, self._half = (self._half + lines).split(b"\n")
        return [event for line in whole if (event := _event(line)) is not None]


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("e"), str):
        return None
    known = isinstance(event.get("t"), int) and wrong_field(event["e"], event) is None
    return event if known else None
