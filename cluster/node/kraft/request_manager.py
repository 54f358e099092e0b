"""At most one request in flight to each node, with back-off and time-outs (RequestManager.java)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cluster.node.ports import Endpoint, Random


@dataclass(slots=True)
class _Connection:
    until_ms: float
    """When the request times out, or the back-off ends."""
    correlation_id: int | None = None
    """Of the request in flight; None while the node is left alone."""


class RequestManager:
    """Connection states by node id. Times are monotonic ms."""

    def __init__(self, retry_backoff_ms: float, request_timeout_ms: float, random: Random) -> None:
        self.bootstrap: tuple[Endpoint, ...] = ()
        """The nodes to ask for the leader."""
        self._retry_backoff_ms = retry_backoff_ms
        self._request_timeout_ms = request_timeout_ms
        self._random = random
        self._connections: dict[int, _Connection] = {}
        self._next_correlation_id = 0

    def is_ready(self, node_id: int, now_ms: float) -> bool:
        """Whether a request may be sent to this node now."""
        connection = self._connections.get(node_id)
        if connection is not None and now_ms >= connection.until_ms:
            # A request that timed out, or a back-off that is over.
            del self._connections[node_id]
            return True
        return connection is None

    def is_awaiting(self, node_id: int, now_ms: float) -> bool:
        """Whether a request to this node is in flight and has not timed out."""
        connection = self._connections.get(node_id)
        return (
            connection is not None
            and connection.correlation_id is not None
            and now_ms < connection.until_ms
        )

    def awaited_until_ms(self, now_ms: float) -> float | None:
        """When the last of the requests in flight times out; None when there is none."""
        until_ms = now_ms
        for connection in self._connections.values():
            if connection.correlation_id is not None and until_ms < connection.until_ms:
                until_ms = connection.until_ms
        return until_ms if until_ms > now_ms else None

    def ready_at_ms(self, node_id: int) -> float:
        """When `is_ready` will hold without any response arriving."""
        connection = self._connections.get(node_id)
        return 0.0 if connection is None else connection.until_ms

    def find_ready_bootstrap(self, now_ms: float) -> Endpoint | None:
        """A random bootstrap server that may be asked; None while anything is in flight."""
        if self.awaited_until_ms(now_ms) is not None:
            return None
        ready = [e for e in self.bootstrap if self.is_ready(e.node_id, now_ms)]
        return self._random.choice(ready) if ready else None

    def bootstrap_ready_at_ms(self) -> float:
        """When `find_ready_bootstrap` should be tried again if no response arrives."""
        in_flight = [c.until_ms for c in self._connections.values() if c.correlation_id is not None]
        if in_flight:
            return max(in_flight)
        return min((self.ready_at_ms(e.node_id) for e in self.bootstrap), default=math.inf)

    def on_request_sent(self, node_id: int, now_ms: float) -> int:
        """Note a request; returns its correlation id, unique for this manager.

        Others that timed out are given up for good: two Fetches must never be answered, and one
        node may be known by two ids, its own and that of a bootstrap server.
        """
        connections = self._connections
        for other, connection in tuple(connections.items()):
            if connection.correlation_id is not None and now_ms >= connection.until_ms:
                del connections[other]
        self._next_correlation_id = correlation_id = self._next_correlation_id + 1
        connections[node_id] = _Connection(now_ms + self._request_timeout_ms, correlation_id)
        return correlation_id

    def is_response_expected(self, node_id: int, correlation_id: int) -> bool:
        """Whether this response belongs to the request in flight to that node."""
        connection = self._connections.get(node_id)
        return connection is not None and connection.correlation_id == correlation_id

    def on_success(self, node_id: int) -> None:
        """Note the end of the request in flight."""
        self._connections.pop(node_id, None)

    def on_failure(self, node_id: int, now_ms: float) -> None:
        """Note the end of the request in flight, and leave that node alone for the back-off."""
        self._connections[node_id] = _Connection(now_ms + self._retry_backoff_ms)

    def reset_all(self) -> None:
        """Forget everything in flight: responses to an earlier role are of no interest."""
        self._connections.clear()
