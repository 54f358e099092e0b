"""The network of a simulated world: messages as objects over directed links that misbehave.

A request is two messages, there and back, each over its own link. Every link has its own stream of
random numbers, made from (seed, link), so that what happens on one link does not change what
happens on another, and a run without one of its events stays nearly the same run.

A link may delay a message, lose it, deliver it twice, or let a later one overtake it. A link that
is cut loses messages or keeps them until it is restored, as a TCP connection does while it lives.
A `Hold` keeps messages on purpose. Only one that a hold kept can be delivered after its sender or
its receiver was restarted.

Failures are those of `cluster.node.runtime.network`: NOT_SENT when the node is dead as the request
is sent, DISCONNECTED when it dies before it has answered, TIMED_OUT for everything else. Loss and
duplication hit raft messages between nodes only: TCP neither repeats nor drops a client's write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from cluster.backends.sim.links import CLIENT_PREFIX, RAFT_MESSAGES, Hold, LinkState, Transit
from cluster.backends.sim.scheduler import Owner, Scheduler
from cluster.backends.sim.settings import SimSettings
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol.data_messages import UNANSWERED, wants_response

Reply = Callable[[Any], None]
OnRequest = defaultdict[type, list[Callable[[str, object], None]]]
OnResponse = defaultdict[type, list[Callable[[str, object, object], None]]]
"""Hooks by the request's type: most messages are raft's, and few hooks are of those."""


class Host(Owner, Protocol):
    """One incarnation of a node, as the network sees it."""

    name: str
    calls: dict[Call, None]
    """Requests to it that are not answered yet, oldest first."""

    def serve(self, port: int, message: object, reply: Reply) -> None:
        """Take a request on one of its listeners."""


class Call:
    """One request and what became of it."""

    __slots__ = (
        "_back",
        "_mesh",
        "_message",
        "_on_reply",
        "_port",
        "_sender",
        "_target",
        "_there",
        "_timer",
        "done",
    )

    def __init__(
        self,
        mesh: Mesh,
        sender: Host | None,
        there: LinkState,
        port: int,
        message: object,
        timeout_ms: float,
        on_reply: Reply,
    ) -> None:
        """Send the request."""
        self._mesh = mesh
        self._sender = sender
        self._there = there
        self._back = there.back
        self._port = port
        self._message = message
        self._on_reply = on_reply
        self.done = False
        if sender is not None:
            for observe in mesh.on_ask.get(type(message), ()):
                observe(sender.name, message)
        self._timer = mesh.scheduler.call_later(timeout_ms, self._timed_out, sender)
        self._target: Host | None = mesh.hosts.get(there.target)
        if self._target is None:
            # No refusal crosses a cut link: the request times out, and its outcome stays unknown.
            if not there.cut and not self._back.cut:
                refused_ms = there.latency() + self._back.latency()
                mesh.scheduler.call_later(refused_ms, self._on_refusal, sender)
            return
        self._target.calls[self] = None
        mesh.carry(there, message, self._serve, self._target, self._arrive_late, None)
        if not wants_response(message):
            mesh.scheduler.call_later(0, self._on_send, sender)  # the socket takes it, cut or not

    def disconnect(self) -> None:
        """Report to the sender that the other end died."""
        if not (self.done or self._back.cut):
            scheduler = self._mesh.scheduler
            scheduler.call_later(self._back.latency(), self._on_disconnect, self._sender)

    def _arrive_late(self) -> None:
        """Deliver to the present incarnation of the target, as over a proxy's new connection."""
        target = self._mesh.hosts.get(self._there.target)
        if target is not None:
            self._target = target
            self._mesh.scheduler.call_later(0, self._serve, target)

    def _serve(self) -> None:
        target = self._target
        assert target is not None
        for observe in self._mesh.on_serve.get(type(self._message), ()):
            observe(target.name, self._message)
        target.serve(self._port, self._message, partial(self.answer, target))

    def answer(self, host: Host, response: object) -> None:
        """Send the response back, if its host is still alive."""
        if not host.alive:
            return
        host.calls.pop(self, None)
        if not wants_response(self._message):
            return
        for observe in self._mesh.on_reply.get(type(self._message), ()):
            observe(host.name, self._message, response)
        arrive, sender = partial(self._finish, response), self._sender
        self._mesh.carry(self._back, response, arrive, sender, arrive, sender)

    def _finish(self, response: object) -> None:
        # A second answer, of a request that was delivered twice, is passed on: see `ports.Network`.
        if not self.done:
            self.done = True
            self._timer.cancel()
            if self._sender is not None:
                for observe in self._mesh.on_answer.get(type(self._message), ()):
                    observe(self._sender.name, self._message, response)
        self._on_reply(response)

    def _on_send(self) -> None:
        assert self._target is not None
        self._target.calls.pop(self, None)
        if not self.done:
            self._finish(UNANSWERED)

    def _fail(self, failure: Failure) -> None:
        if not self.done:
            if self._target is not None:
                self._target.calls.pop(self, None)
            self._finish(failure)

    def _timed_out(self) -> None:
        self._fail(Failure.TIMED_OUT)

    def _on_refusal(self) -> None:
        self._fail(Failure.NOT_SENT)

    def _on_disconnect(self) -> None:
        self._fail(Failure.DISCONNECTED)


class Mesh:
    """All links of one world, by the names of their ends."""

    def __init__(self, scheduler: Scheduler, seed: object, settings: SimSettings) -> None:
        self.scheduler = scheduler
        self.settings = settings
        self.hosts: dict[str, Host] = {}
        """The live incarnation of each node that has one."""
        self.holds: list[Hold] = []
        """The first that wants a message keeps it."""
        self.on_ask: OnRequest = defaultdict(list)
        """Called with a node and each request that it sends."""
        self.on_serve: OnRequest = defaultdict(list)
        """Called with the target and each request that is handed to it, before it is."""
        self.on_reply: OnResponse = defaultdict(list)
        """Called with a node, a request and its response, before that is on its way."""
        self.on_answer: OnResponse = defaultdict(list)
        """Called with a node, its request and what ends that, before it is handed to the node."""
        self._seed = seed
        self._links: dict[tuple[str, str], LinkState] = {}
        self._cuts: set[tuple[str, str]] = set()
        """The ends of the links that are cut: among all links, those of clients above all, few."""
        self._clients = 0

    def link(self, source: str, target: str) -> LinkState:
        """Return the state of a directed link; its probabilities and delays may be changed."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = self._new_link(source, target)
            if source != target:  # else it is its own way back
                link.back = self._links[target, source] = self._new_link(target, source)
                link.back.back = link
        return link

    def _new_link(self, source: str, target: str) -> LinkState:
        return LinkState(source, target, self._seed, self.settings)

    def new_client(self) -> str:
        """Name a client of the harness."""
        self._clients += 1
        return f"{CLIENT_PREFIX}{self._clients}"

    def request(
        self,
        source: str,
        sender: Host | None,
        destination: Endpoint,
        message: object,
        timeout_ms: float,
        on_reply: Reply,
    ) -> Call:
        """Carry a request and its response; `on_reply` is called on behalf of `sender`."""
        there = self.link(source, destination.host)
        return Call(self, sender, there, destination.port, message, timeout_ms, on_reply)

    def carry(
        self,
        link: LinkState,
        message: object,
        deliver: Callable[[], None],
        owner: Owner | None,
        deliver_late: Callable[[], None],
        late_owner: Owner | None,
    ) -> None:
        """Send one message over a link, which may lose, keep, delay or repeat it.

        `deliver` delivers it on the connection that it was sent on; `deliver_late` also after that
        connection is gone, for a message that a hold kept.
        """
        holds = link.holds
        if holds is None:
            ends = link.source, link.target
            holds = link.holds = tuple(hold for hold in self.holds if ends in hold.links)
        for hold in holds:
            if hold.wants(link.source, link.target, message):
                hold.held.append(Transit(self.scheduler, link, message, deliver_late, late_owner))
                return
        if link.cut:
            if link.stream.random() < self.settings.cut_keeps:
                link.kept.append(Transit(self.scheduler, link, message, deliver, owner))
            return
        if (link.loss or link.duplication or link.shape is not None) and type(
            message
        ) in RAFT_MESSAGES:
            loss, duplication = link.loss_now, link.duplication_now
            if loss and link.stream.random() < loss:
                return
            if duplication and link.stream.random() < duplication:
                self.scheduler.call_later(link.latency(), deliver, owner)
        link.passed += 1
        self.scheduler.post(link.latency(), deliver, owner)

    # What faults do.

    def add_hold(self, hold: Hold) -> None:
        """Put a hold in force until it has no links."""
        self._set_holds([*(other for other in self.holds if other.links), hold])

    def _set_holds(self, holds: list[Hold]) -> None:
        self.holds = holds
        for link in self._links.values():
            link.holds = None

    def end_holds(self) -> None:
        """End all holds and lose what they kept."""
        for hold in self.holds:
            hold.links, hold.held = frozenset(), []
        self._set_holds([])

    def cut(self, source: str, target: str) -> None:
        """Cut a directed link: it carries no message until it is restored."""
        link = self.link(source, target)
        if not link.cut:
            link.cut = True
            self._cuts.add((source, target))
            link.passed = 0

    def restore(self, source: str, target: str) -> None:
        """Restore a directed link, and deliver the messages that it kept."""
        link = self.link(source, target)
        if link.cut:
            link.cut = False
            self._cuts.remove((source, target))
            link.passed = 0
            kept, link.kept = link.kept, []
            for transit in kept:
                transit.deliver_late()

    def cuts(self) -> frozenset[tuple[str, str]]:
        """Name the links that are cut."""
        return frozenset(self._cuts)
