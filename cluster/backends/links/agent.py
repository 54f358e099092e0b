"""A small program beside every node that sends and counts probe packets, for measuring links.

Run as a script in a node's host (standard library only), configured by the environment variable
KRAFTPROBE_LINK_AGENT, a JSON object:

    {"address": own address, "port": n, "token": secret}

It serves the harness over TCP on that port, one line of JSON each way a connection, and other
agents over UDP on the same port. Requests, all with the token:

- {"do": "send", "to": [address, port], "probe": id, "count": n, "gap_ms": g, "from_port": p,
  "size": bytes}: send n datagrams to another agent, from the agent's own port or (0) from a fresh
  one; answers {"sent": n, "answers": [[sequence, round trip in ms], ...]} a little after the last,
  `linger_ms`. Ends early when the harness hangs up.
- {"do": "seen", "probe": id, "wait_ms": w}: what has arrived of a probe: {"seen": [[sequence,
  microseconds after the first], ...]} in the order of arrival, as soon as there is any, at the
  latest after w.
- {"do": "open"}: bind a fresh UDP port, as a dialler has; answers {"port": n}; closed after
  10 s.

Every datagram that arrives is noted and answered at once with its own first bytes, so that a probe
measures both its link and the way back.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import struct
import time
from typing import Any, cast

_HEAD = struct.Struct("!4sQIB")
"""Magic, probe id, sequence, 0 for a probe or 1 for its answer."""
_MAGIC = b"kpLA"
_KEEP = 64
"""Probes that are remembered; the oldest are forgotten."""
_TAKEN_S = 5.0
"""How long an agent before this one, which is being killed, may still hold the port."""
_OPEN_S = 10.0


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
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
            self._agent.on_answer(probe, sequence)
            return
        self._agent.on_arrival(probe, sequence)
        assert self.transport is not None, "connected before it receives"
        self.transport.sendto(_HEAD.pack(_MAGIC, probe, sequence, 1), addr)

    def error_received(self, exc: Exception) -> None:
        """Leave it: an unreachable peer shows by what does not arrive."""


class Agent:
    """Sends, notes and answers."""

    def __init__(self, address: str, port: int, token: str) -> None:
        self._address = address
        self._port = port
        self._token = token
        self._main: asyncio.DatagramTransport | None = None
        self._seen: dict[int, list[tuple[int, int]]] = {}
        self._sent_ns: dict[int, dict[int, int]] = {}
        self._answers: dict[int, list[tuple[int, float]]] = {}
        self._news = asyncio.Event()

    async def serve(self) -> None:
        """Serve until killed. Raises OSError when the port stays taken."""
        deadline_s = time.monotonic() + _TAKEN_S
        while self._main is None:
            try:
                self._main = await self._bind(self._port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline_s:
                    raise
                await asyncio.sleep(0.05)
        server = await asyncio.start_server(self._talk, self._address, self._port)
        await server.serve_forever()

    def on_arrival(self, probe: int, sequence: int) -> None:
        """Note a probe packet."""
        while len(self._seen) >= _KEEP and probe not in self._seen:
            del self._seen[next(iter(self._seen))]
        self._seen.setdefault(probe, []).append((sequence, time.monotonic_ns()))
        self._news.set()
        self._news = asyncio.Event()

    def on_answer(self, probe: int, sequence: int) -> None:
        """Note the answer to a packet of ours."""
        sent_ns = self._sent_ns.get(probe, {}).get(sequence)
        if sent_ns is not None:
            round_trip_ms = (time.monotonic_ns() - sent_ns) / 1e6
            self._answers[probe].append((sequence, round_trip_ms))

    async def _bind(self, port: int) -> asyncio.DatagramTransport:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self), (self._address, port)
        )
        return transport

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            request = json.loads(await reader.readline())
            if request.pop("token") == self._token:
                answer = await self._do(request, reader)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()

    async def _do(self, request: dict[str, Any], reader: asyncio.StreamReader) -> object:
        if request["do"] == "seen":
            return await self._answer_seen(int(request["probe"]), float(request["wait_ms"]))
        if request["do"] == "open":
            transport = await self._bind(0)
            asyncio.get_running_loop().call_later(_OPEN_S, transport.close)
            return {"port": transport.get_extra_info("sockname")[1]}
        sending = asyncio.ensure_future(self._send(request))
        hung_up = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({sending, hung_up}, return_when=asyncio.FIRST_COMPLETED)
        for task in (sending, hung_up):
            task.cancel()
        return await sending

    async def _answer_seen(self, probe: int, wait_ms: float) -> object:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                while probe not in self._seen:
                    await self._news.wait()
        seen = self._seen.get(probe, [])
        return {"seen": [(sequence, (at - seen[0][1]) // 1000) for sequence, at in seen]}

    async def _send(self, request: dict[str, Any]) -> object:
        probe, count = int(request["probe"]), int(request["count"])
        filler = bytes(max(0, int(request["size"]) - _HEAD.size))
        sent_ns = self._sent_ns[probe] = {}
        answers = self._answers[probe] = []
        fresh = int(request["from_port"]) == 0
        transport = await self._bind(0) if fresh else self._main
        assert transport is not None, "serving"
        try:
            for sequence in range(count):
                sent_ns[sequence] = time.monotonic_ns()
                head = _HEAD.pack(_MAGIC, probe, sequence, 0)
                transport.sendto(head + filler, tuple(request["to"]))
                await asyncio.sleep(float(request["gap_ms"]) / 1000)
            await asyncio.sleep(float(request["linger_ms"]) / 1000)
        finally:
            if fresh:
                transport.close()
            del self._sent_ns[probe], self._answers[probe]
        return {"sent": count, "answers": answers}


def main() -> None:
    """Serve as the environment says."""
    settings = json.loads(os.environ["KRAFTPROBE_LINK_AGENT"])

    async def run() -> None:
        await Agent(settings["address"], settings["port"], settings["token"]).serve()

    asyncio.run(run())


if __name__ == "__main__":
    main()
