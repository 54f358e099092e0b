"""Delays, reorders, repeats and throttles the packets of a host; needs CAP_NET_ADMIN.

Rules of the packet filter send the host's own packets to its netfilter queue (NFQUEUE); each stays
in the kernel until the agent says that it may leave. Nothing of it is needed in the kernel but the
queue, where netem would be a module that many kernels lack.

A destination is a wire. A packet waits until the wire is free and then as long as its bits take at
the rate; 2 s of backlog are the most, more is dropped, as in a router. Then it travels for the
delay, plus or minus up to the jitter, and never overtakes, but for the share that is to reorder:
those travel no time at all, so that they overtake whatever is on its way; without a delay the
others travel 10 ms for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import os
import random
import select
import socket
import struct
import time
from typing import Any

from cluster.backends.agent.frames import Message

_BACKLOG_S = 2.0
_OVERTAKEN_S = 0.01
_NETLINK_NETFILTER = 12
_SUBSYSTEM_QUEUE = 3
_PACKET, _VERDICT, _CONFIG = 0, 1, 2
_A_PACKET_HEADER, _A_VERDICT_HEADER, _A_PAYLOAD = 1, 2, 10
_A_COMMAND, _A_PARAMETERS, _A_QUEUE_LENGTH = 1, 2, 3
_BIND = 1
_COPY_PACKET = 2
_DROP, _ACCEPT = 0, 1
_SO_RCVBUFFORCE = 33
_SO_MARK = 36
_HEADER = struct.Struct("=IHHII")
_RECEIVE_BYTES = 8 * 1024 * 1024


class Wire:
    """What packets to one destination meet."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.delay_s = order["delay_ms"] / 1000
        self.jitter_s = order["jitter_ms"] / 1000
        self.reorder = order["reorder"]
        self.duplicate = order["duplicate"]
        rate = order["rate_kbit_s"]
        self.byte_s = 8 / (rate * 1000) if rate else 0.0
        if self.reorder and not self.delay_s:
            self.delay_s = _OVERTAKEN_S
        self._free_at = 0.0
        self._last_at = 0.0

    def departures(self, now: float, size_bytes: int) -> list[float]:
        """When a packet leaves, and its repetition; none: it is dropped."""
        starts = max(now, self._free_at)
        if starts - now > _BACKLOG_S:
            return []
        self._free_at = starts + size_bytes * self.byte_s
        at = self._free_at
        if random.random() >= self.reorder:
            at += max(0.0, self.delay_s + random.uniform(-self.jitter_s, self.jitter_s))
            at = self._last_at = max(at, self._last_at)
        return [at, at] if random.random() < self.duplicate else [at]


class Queue:
    """The kernel's queue of packets that wait for a verdict."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        self.socket.bind((0, 0))
        self.socket.setblocking(False)  # noqa: FBT003  (takes no keyword)
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BYTES)
        self._send(_CONFIG, _attribute(_A_COMMAND, struct.pack(">BxH", _BIND, 0)))
        copy = struct.pack(">IB", 0xFFFF, _COPY_PACKET)
        self._send(_CONFIG, _attribute(_A_PARAMETERS, copy))
        self._send(_CONFIG, _attribute(_A_QUEUE_LENGTH, struct.pack(">I", 65536)))

    def packets(self) -> list[tuple[int, bytes]]:
        """Take what has arrived: packet ids and packets from their IP headers on."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    data = self.socket.recv(1 << 17)
                except OSError as error:
                    if isinstance(error, BlockingIOError):
                        raise
                    continue  # ENOBUFS: the kernel had to let some pass, or drop them
                found += _parse(data)
        return found

    def decide(self, packet: int, verdict: int) -> None:
        """Let the packet go, or drop it."""
        data = _attribute(_A_VERDICT_HEADER, struct.pack(">II", verdict, packet))
        with contextlib.suppress(OSError):  # the kernel has forgotten it
            self._send(_VERDICT, data, acknowledged=False)

    def _send(self, kind: int, attributes: bytes, *, acknowledged: bool = True) -> None:
        family = struct.pack(">BBH", 0, 0, self._number)
        length = _HEADER.size + len(family) + len(attributes)
        flags = 5 if acknowledged else 1  # NLM_F_REQUEST, NLM_F_ACK
        header = _HEADER.pack(length, _SUBSYSTEM_QUEUE << 8 | kind, flags, 0, 0)
        self.socket.send(header + family + attributes)
        if acknowledged:
            select.select([self.socket], [], [], 1.0)
            code = struct.unpack_from("=i", self.socket.recv(4096), _HEADER.size)[0]
            if code:
                raise OSError(-code, os.strerror(-code))


def _attribute(kind: int, value: bytes) -> bytes:
    padding = bytes(-len(value) % 4)
    return struct.pack("=HH", 4 + len(value), kind) + value + padding


def _parse(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while len(data) >= _HEADER.size:
        length, kind = _HEADER.unpack_from(data)[:2]
        if length < _HEADER.size:
            break
        if kind == _SUBSYSTEM_QUEUE << 8 | _PACKET:
            packet, payload = -1, b""
            position = _HEADER.size + 4
            while position + 4 <= length:
                size, name = struct.unpack_from("=HH", data, position)
                if size < 4:
                    break
                value = data[position + 4 : position + size]
                if name == _A_PACKET_HEADER:
                    packet = struct.unpack_from(">I", value)[0]
                elif name == _A_PAYLOAD:
                    payload = value
                position += size + -size % 4
            found.append((packet, payload))
        data = data[length + -length % 4 :]
    return found


class Shaper:
    """Holds packets and lets them go in time."""

    def __init__(self, queue: int, mark: int, *, version_6: bool) -> None:
        self.queue = Queue(queue)
        self._wires: dict[str, Wire] = {}
        self._waiting: list[tuple[float, int, int, str, bytes]] = []
        """Heap of (due, order, packet id or -1 for a repetition, destination, packet)."""
        self._order = 0
        family = socket.AF_INET6 if version_6 else socket.AF_INET
        # IPPROTO_RAW: what is sent has its IP header; marked, so that no rule queues it again.
        self._raw = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._raw.setsockopt(socket.SOL_SOCKET, _SO_MARK, mark)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(self.queue.socket, self.turn)

    def obey(self, links: dict[str, dict[str, Any]]) -> None:
        """Replace all orders; what waits for destinations without any leaves at once."""
        self._wires = {address: Wire(order) for address, order in links.items()}
        kept = []
        for entry in sorted(self._waiting):
            if entry[3] in self._wires:
                kept.append(entry)
            else:
                self._let_go(entry)
        self._waiting = kept  # sorted, so it is a heap

    def turn(self) -> None:
        """Take packets in, let go what is due, and come back when the next is."""
        for packet, payload in self.queue.packets():
            self._take(packet, payload)
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            self._let_go(heapq.heappop(self._waiting))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._timer = self._loop.call_later(max(0.0, self._waiting[0][0] - now), self.turn)

    def _take(self, packet: int, payload: bytes) -> None:
        address = _destination(payload)
        wire = self._wires.get(address)
        now = time.monotonic()
        departures = [now] if wire is None else wire.departures(now, len(payload))
        if not departures:
            self.queue.decide(packet, _DROP)
            return
        for number, at in enumerate(departures):
            self._order += 1
            packet_id = packet if number == 0 else -1
            heapq.heappush(self._waiting, (at, self._order, packet_id, address, payload))

    def _let_go(self, entry: tuple[float, int, int, str, bytes]) -> None:
        _, _, packet, address, payload = entry
        if packet >= 0:
            self.queue.decide(packet, _ACCEPT)
        else:
            with contextlib.suppress(OSError):  # a repetition that does not fit is none
                self._raw.sendto(payload, (address, 0))


def _destination(payload: bytes) -> str:
    if len(payload) >= 20 and payload[0] >> 4 == 4:
        return socket.inet_ntop(socket.AF_INET, payload[16:20])
    if len(payload) >= 40 and payload[0] >> 4 == 6:
        return socket.inet_ntop(socket.AF_INET6, payload[24:40])
    return ""


class Shaping:
    """The agent's verb for shapes of links."""

    def __init__(self) -> None:
        self._shaper: Shaper | None = None

    async def do_shape(self, asked: Message) -> Message:
        """Replace all orders: {links, queue, mark, address}.

        `links`: destination address -> {delay_ms, jitter_ms, reorder, duplicate, rate_kbit_s}.
        What waits for a destination without orders leaves at once.
        """
        if self._shaper is None:
            version_6 = ":" in asked.fields["address"]
            self._shaper = Shaper(asked.fields["queue"], asked.fields["mark"], version_6=version_6)
        self._shaper.obey(asked.fields["links"])
        return Message({})
