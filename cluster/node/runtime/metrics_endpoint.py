"""`GET /metrics` on a port of its own, on the node's loop. It answers once and hangs up.

Bounded: so many connections, so long a request, so much time. Nothing that arrives is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Of Prometheus' text format."""
MAX_CONNECTIONS: Final = 16
MAX_REQUEST_BYTES: Final = 8 * 1024
TIMEOUT_S: Final = 5.0
_END: Final = b"\r\n\r\n"


class MetricsEndpoint:
    """Serves what `exposition` returns."""

    def __init__(self, exposition: Callable[[], bytes]) -> None:
        self.exposition = exposition
        self.connections: set[_Scrape] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Scrape(self), host, port, backlog=16)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening and hang up. Idempotent."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in sorted(self.connections, key=id):
            connection.abort()


class _Scrape(asyncio.Protocol):
    """One connection, one request."""

    def __init__(self, endpoint: MetricsEndpoint) -> None:
        self._endpoint = endpoint
        self._request = b""
        self._answered = False
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if len(self._endpoint.connections) >= MAX_CONNECTIONS:
            self.abort()
            return
        self._endpoint.connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(TIMEOUT_S, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._answered or self._transport is None:
            return
        self._request += data
        if len(self._request) > MAX_REQUEST_BYTES:
            self._answer("431 Request Header Fields Too Large", b"")
        elif _END in self._request:
            line = self._request.partition(b"\r\n")[0].split(b" ")
            if line[0] not in {b"GET", b"HEAD"}:
                self._answer("405 Method Not Allowed", b"")
            elif len(line) != 3 or line[1].partition(b"?")[0] != b"/metrics":
                self._answer("404 Not Found", b"")
            else:
                body = self._endpoint.exposition()
                self._answer("200 OK", body, is_head=line[0] == b"HEAD")

    def _answer(self, status: str, body: bytes, *, is_head: bool = False) -> None:
        assert self._transport is not None
        self._answered = True
        self._request = b""
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (b"" if is_head else body))
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._endpoint.connections.discard(self)

    def abort(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()
