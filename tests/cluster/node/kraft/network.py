"""A simulated network: messages as objects, latency, cuts, and messages held back.

A request is two messages, there and back, each carried over its directed link. A cut link loses
what is sent over it; a held link keeps it, in order, until it is released or dropped. A request to
a node that is not running fails with NOT_SENT after one latency; every other failure is a
time-out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cluster.backends.sim.scheduler import Scheduler
from cluster.node.ports import Endpoint, Failure
from cluster.values import valueclass

Reply = Callable[[Any], None]
Handler = Callable[[object, Reply], None]
"""A node's entry for requests: message, and where its response goes."""


@dataclass(slots=True)
class HeldMessage:
    """A message that waits on a held link."""

    source: int
    target: int
    message: object
    deliver: Callable[[], None]


@dataclass(slots=True)
class SimNetwork:
    """All links of one world. Node ids name the ends; clients have ids of their own."""

    scheduler: Scheduler
    latency_ms: Callable[[], float]
    cut: set[tuple[int, int]] = field(default_factory=set)
    held_links: set[tuple[int, int]] = field(default_factory=set)
    held: list[HeldMessage] = field(default_factory=list)
    handlers: dict[int, Handler] = field(default_factory=dict)

    def isolate(self, node_id: int, others: tuple[int, ...]) -> None:
        """Cut a node from the others, both ways."""
        for other in others:
            if other != node_id:
                self.cut |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        """Restore all links; what was lost stays lost, what is held stays held."""
        self.cut.clear()
        self.held_links.clear()

    def release(self, wanted: Callable[[HeldMessage], bool] = lambda _: True) -> int:
        """Deliver held messages that `wanted` accepts, in order; returns how many."""
        ready = [held for held in self.held if wanted(held)]
        self.held = [held for held in self.held if not wanted(held)]
        for held in ready:
            held.deliver()
        return len(ready)

    def request(
        self,
        source: int,
        destination: Endpoint,
        message: object,
        timeout_ms: float,
        on_reply: Reply,
        is_alive: Callable[[], bool],
    ) -> None:
        """Carry a request and its response for a sender that may die meanwhile."""
        target = destination.node_id
        done = False

        def finish(result: object) -> None:
            nonlocal done
            if is_alive() and (not done or not isinstance(result, Failure)):
                done = True
                on_reply(result)

        def arrive() -> None:
            handler = self.handlers.get(target)
            if handler is None:
                self.scheduler.call_later(self.latency_ms(), lambda: finish(Failure.NOT_SENT))
                return
            handler(message, lambda response: self._carry(target, source, response, back(response)))

        def back(response: object) -> Callable[[], None]:
            return lambda: finish(response)

        self.scheduler.call_later(timeout_ms, lambda: finish(Failure.TIMED_OUT))
        self._carry(source, target, message, arrive)

    def _carry(
        self, source: int, target: int, message: object, deliver: Callable[[], None]
    ) -> None:
        link = (source, target)
        if link in self.held_links:
            self.held.append(HeldMessage(source, target, message, deliver))
            return
        if link not in self.cut:
            self.scheduler.call_later(self.latency_ms(), deliver)


@valueclass
class NodeNetwork:
    """One incarnation's view of the network (`cluster.node.ports.Network`)."""

    network: SimNetwork
    node_id: int
    is_alive: Callable[[], bool]

    def request(
        self, destination: Endpoint, message: object, timeout_ms: float, on_reply: Reply
    ) -> None:
        """Send a request; see `cluster.node.ports.Network`."""
        self.network.request(
            self.node_id, destination, message, timeout_ms, on_reply, self.is_alive
        )
