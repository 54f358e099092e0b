"""Measures directed links between hosts by probe packets of the link agents.

A probe is a handful of datagrams from the source's host to the target's, with the address and the
interface that the nodes' own packets have. What arrives is told by the target's agent over the
harness's own path, so each direction is measured by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import secrets
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.backends import linkagent
from cluster.backends.abilities import Host, ShapeMeasure
from cluster.backends.base import BackendError, Link, NodeState
from cluster.backends.hosts import HostProvider, StartedProcess
from cluster.backends.processes import labels

_PROGRAM = "linkagent.py"
_SOURCE = Path(linkagent.__file__).read_bytes()
_OUTPUT = "linkagent.log"
_READY_TIMEOUT_S = 15.0
_ASK_TIMEOUT_S = 5.0
_POLL_S = 0.02
_GAP_MS = 20.0
_SMALL_BYTES = 64
_SHAPE_PROBES = 100
_SHAPE_GAP_MS = 5.0
_LINGER_MS = 600.0
"""How long an answer may take to count as one; a longer round trip counts as lost."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What one probe's packets met on their link."""

    sent: int
    sequences: tuple[int, ...]
    """Of the packets in their order of arrival; a duplicate is there twice."""
    at_ms: tuple[float, ...]
    """When each arrived, after the first."""
    round_trips_ms: tuple[float, ...]
    """Of the packets whose answers came back."""

    @property
    def lost(self) -> float:
        """Share of packets that did not arrive."""
        return 1.0 - len(set(self.sequences)) / self.sent

    @property
    def duplicated(self) -> float:
        """Share of packets that arrived more than once."""
        return (len(self.sequences) - len(set(self.sequences))) / self.sent

    @property
    def overtaken(self) -> float:
        """Share of packets that arrived after one that was sent later."""
        latest, behind = -1, 0
        for sequence in self.sequences:
            behind += sequence < latest
            latest = max(latest, sequence)
        return behind / self.sent


class LinkProber:
    """One agent in every host, and the questions to them. `start` first."""

    def __init__(self, provider: HostProvider, hosts: Mapping[str, Host], run_id: str) -> None:
        self._provider = provider
        self._hosts = dict(hosts)
        self._run_id = run_id
        self._token = secrets.token_hex(16)
        self._agents: dict[str, StartedProcess] = {}
        self._numbers = itertools.count(random.getrandbits(48))

    async def start(self) -> None:
        """Start every agent and wait until they answer. Raises BackendError."""
        await asyncio.gather(*(self.ensure(node) for node in self._hosts))

    async def ensure(self, node: str) -> None:
        """Start the node's agent if it does not run."""
        agent = self._agents.get(node)
        if agent is not None and await agent.state() is not NodeState.DEAD:
            return
        await self._provider.put(node, {_PROGRAM: _SOURCE})
        port = self._provider.ports(node).link_agent
        told = {"address": self._hosts[node].address, "port": port, "token": self._token}
        environment = {"KRAFTPROBE_LINK_AGENT": json.dumps(told), **labels(self._run_id)}
        command = (self._provider.interpreter, "-I", "-S", _PROGRAM)
        self._agents[node] = await self._provider.start(node, command, environment, _OUTPUT)
        await self._wait_ready(node, self._agents[node])

    def stop_now(self) -> None:
        """Kill the agents without the event loop."""
        for agent in self._agents.values():
            agent.kill_now()

    async def passes(self, link: Link, timeout_s: float, *, as_answer: bool) -> bool:
        """Send packets over the link until one arrives, or the time is over.

        As the source's request goes (from a fresh port to the target's known one), or as its answer
        to a request of the target's (from its known port to a fresh one).
        """
        source, target = link
        source_port, target_port = 0, self._port(target)
        if as_answer:
            source_port = self._port(source)
            target_port = int((await self._ask(target, {"do": "open"}))["port"])
        probe = next(self._numbers)
        count = max(1, int(timeout_s * 1000 / _GAP_MS))
        request = self._sending(target, target_port, probe, count, _GAP_MS, source_port)
        sending = asyncio.ensure_future(self._ask(source, request, timeout_s + _ASK_TIMEOUT_S))
        try:
            seen = await self._seen(target, probe, timeout_s)
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, BackendError):
                await sending
        return bool(seen)

    async def arrivals(
        self, link: Link, count: int = _SHAPE_PROBES, gap_ms: float = _SHAPE_GAP_MS
    ) -> Arrivals:
        """Send that many packets over the link and see what becomes of each."""
        source, target = link
        probe = next(self._numbers)
        request = self._sending(target, self._port(target), probe, count, gap_ms, 0)
        request["linger_ms"] = _LINGER_MS
        takes_s = (count * gap_ms + _LINGER_MS) / 1000
        answer = await self._ask(source, request, 3 * takes_s + _ASK_TIMEOUT_S)
        seen = await self._seen(target, probe, 0.0)
        return Arrivals(
            sent=count,
            sequences=tuple(int(sequence) for sequence, _ in seen),
            at_ms=tuple(at / 1000 for _, at in seen),
            round_trips_ms=tuple(float(trip) for _, trip in answer["answers"]),
        )

    async def shape(self, link: Link) -> ShapeMeasure:
        """Measure loss, and the round trip there and back over the opposite link."""
        arrivals = await self.arrivals(link)
        trips = arrivals.round_trips_ms
        return ShapeMeasure(statistics.median(trips) if trips else None, arrivals.lost)

    def _port(self, node: str) -> int:
        return self._provider.ports(node).link_agent

    def _sending(
        self, target: str, port: int, probe: int, count: int, gap_ms: float, from_port: int
    ) -> dict[str, Any]:
        return {
            "do": "send",
            "to": [self._hosts[target].address, port],
            "probe": probe,
            "count": count,
            "gap_ms": gap_ms,
            "from_port": from_port,
            "size": _SMALL_BYTES,
            "linger_ms": 0,
        }

    async def _seen(self, node: str, probe: int, wait_s: float) -> list[tuple[int, int]]:
        request = {"do": "seen", "probe": probe, "wait_ms": wait_s * 1000}
        seen: list[tuple[int, int]] = (await self._ask(node, request, wait_s + _ASK_TIMEOUT_S))[
            "seen"
        ]
        return seen

    async def _ask(
        self, node: str, request: Mapping[str, Any], timeout_s: float = _ASK_TIMEOUT_S
    ) -> Any:
        """Ask an agent over the harness's own path. Raises BackendError."""
        line = json.dumps({**request, "token": self._token}).encode() + b"\n"
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._provider.connect(
                    self._hosts[node].address, self._port(node)
                )
                reader, writer = await asyncio.open_connection(sock=connection)
                try:
                    writer.write(line)
                    answer = await reader.readline()
                finally:
                    writer.close()
            return json.loads(answer)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise BackendError(f"the link agent of {node} does not answer: {reason}") from error

    async def _wait_ready(self, node: str, agent: StartedProcess) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _READY_TIMEOUT_S
        while True:
            try:
                await self._ask(node, {"do": "seen", "probe": 0, "wait_ms": 0})
            except BackendError as error:
                dead = await agent.state() is NodeState.DEAD
                if dead or loop.time() >= deadline:
                    tail = " | ".join(await agent.output_tail()) or str(error)
                    raise BackendError(f"the link agent of {node} did not start: {tail}") from error
                await asyncio.sleep(_POLL_S)
            else:
                return
