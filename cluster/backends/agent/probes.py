"""Probe packets between the agents of hosts: the verbs that measure links.

Every datagram that arrives is noted and answered at once with its own first bytes, so that a probe
measures both its link and the way back.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import struct
import time
from typing import Any, cast

from cluster.backends.agent.frames import Message

_HEAD = struct.Struct("!4sQIB")
"""Magic, probe id, sequence, 0 for a probe or 1 for its answer."""
_MAGIC = b"kpLA"
_KEEP = 64
"""Probes that are remembered; the oldest are forgotten."""
_TAKEN_S = 5.0
"""How long an agent before this one, which is being killed, may still hold the port."""
_OPEN_S = 10.0


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, probes: Probes) -> None:
        self._probes = probes
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Up to CPython 3.11 asyncio's own class is no DatagramTransport: a cast, no check.
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if len(data) < _HEAD.size:
            return
        magic, probe, sequence, is_answer = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            return
        if is_answer:
            self._probes.on_answer(probe, sequence)
            return
        self._probes.on_arrival(probe, sequence)
        assert self.transport is not None, "connected before it receives"
        self.transport.sendto(_HEAD.pack(_MAGIC, probe, sequence, 1), addr)

    def error_received(self, exc: Exception) -> None:
        """Leave it: an unreachable peer shows by what does not arrive."""


class Probes:
    """Sends, notes and answers, from the host's own address."""

    def __init__(self) -> None:
        self._address = ""
        self._main: asyncio.DatagramTransport | None = None
        self._listening = asyncio.Lock()
        self._seen: dict[int, list[tuple[int, int]]] = {}
        self._sent_ns: dict[int, dict[int, int]] = {}
        self._answers: dict[int, list[tuple[int, float, float]]] = {}
        self._news = asyncio.Event()

    def on_arrival(self, probe: int, sequence: int) -> None:
        """Note a probe packet."""
        while len(self._seen) >= _KEEP and probe not in self._seen:
            del self._seen[next(iter(self._seen))]
        self._seen.setdefault(probe, []).append((sequence, time.monotonic_ns()))
        self._news.set()
        self._news = asyncio.Event()

    def on_answer(self, probe: int, sequence: int) -> None:
        """Note the answer to a packet of ours."""
        sent_ns = self._sent_ns.get(probe, {})
        if sequence in sent_ns:
            now_ns = time.monotonic_ns()
            times_ms = (now_ns - sent_ns[sequence]) / 1e6, (now_ns - sent_ns[0]) / 1e6
            self._answers[probe].append((sequence, *times_ms))

    def close(self) -> None:
        """Give the port back."""
        if self._main is not None:
            self._main.close()

    async def do_listen(self, asked: Message) -> Message:
        """Take this UDP port, unless it is taken by this agent: {address, port}."""
        deadline_s = time.monotonic() + _TAKEN_S
        self._address = asked.fields["address"]
        async with self._listening:
            while self._main is None:
                try:
                    self._main = await self._bind(asked.fields["port"])
                except OSError as error:
                    if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline_s:
                        raise
                    await asyncio.sleep(0.05)
        return Message({})

    async def do_open(self, _: Message) -> Message:
        """Bind a fresh UDP port, as a dialler has, for 10 s: {port}."""
        transport = await self._bind(0)
        asyncio.get_running_loop().call_later(_OPEN_S, transport.close)
        return Message({"port": transport.get_extra_info("sockname")[1]})

    async def do_seen(self, asked: Message) -> Message:
        """Report what has arrived of a probe: {probe, wait_ms}, as soon as there is any.

        {seen}: [sequence, microseconds after the first] in the order of arrival.
        """
        probe = asked.fields["probe"]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(asked.fields["wait_ms"] / 1000):
                while probe not in self._seen:
                    await self._news.wait()
        seen = self._seen.get(probe, [])
        return Message({"seen": [(sequence, (at - seen[0][1]) // 1000) for sequence, at in seen]})

    async def do_send(self, asked: Message) -> Message:
        """Send datagrams to another agent: {to, probe, count, gap_ms, from_port, size, linger_ms}.

        From the agent's own port, or (`from_port` 0) from a fresh one. {answers}: [sequence, round
        trip in ms, ms since the first was sent], a little after the last packet, or once it is
        stopped.
        """
        request = asked.fields
        probe = request["probe"]
        filler = bytes(max(0, request["size"] - _HEAD.size))
        sent_ns = self._sent_ns[probe] = {}
        answers = self._answers[probe] = []
        fresh = request["from_port"] == 0
        transport = await self._bind(0) if fresh else self._main
        assert transport is not None, "it listens"
        try:
            for sequence in range(request["count"]):
                if probe not in self._sent_ns:
                    break
                sent_ns[sequence] = time.monotonic_ns()
                head = _HEAD.pack(_MAGIC, probe, sequence, 0)
                transport.sendto(head + filler, tuple(request["to"]))
                await asyncio.sleep(request["gap_ms"] / 1000)
            else:
                await asyncio.sleep(request["linger_ms"] / 1000)
        finally:
            if fresh:
                transport.close()
            self._sent_ns.pop(probe, None)
            self._answers.pop(probe, None)
        return Message({"answers": answers})

    async def do_stop(self, asked: Message) -> Message:
        """Send no more packets of a probe: {probe}."""
        self._sent_ns.pop(asked.fields["probe"], None)
        return Message({})

    async def _bind(self, port: int) -> asyncio.DatagramTransport:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self), (self._address, port)
        )
        return transport
