"""Shows the brokers that controllers of a simulated world fence, and for how long they were silent.

`SessionWatch(world, watcher)` hears the heartbeats that are handed to controllers, by their clocks,
and looks at the image of the active one at its trace events `hw` and `ack`. It shows a broker that
was unfenced at the look before, unless it has asked for that: for its end, to be fenced, or with a
log directory that is offline. Its own broker is left out: what that asks for passes no network.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from checkers.invariants.sight import node_name
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.encoded import EncodedRequest
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld
from cluster.node.controller.metadata.registrations import registered_brokers
from cluster.node.protocol.messages import BrokerHeartbeatRequest

_LOOKS = frozenset({"hw", "ack"})
_ENDS = frozenset({"start", "renounce"})

Session = tuple[int, int]
"""A broker and its epoch."""


@dataclass(slots=True)
class _Claim:
    """What an active controller has heard since it claimed, in ms of its clock."""

    since_ms: float
    heard_ms: dict[Session, float] = field(default_factory=dict)
    silent_ms: dict[Session, float] = field(default_factory=dict)
    """The longest silence that ended with a heartbeat."""
    unfenced: frozenset[Session] = frozenset()
    """At the last look."""

    def silence_ms(self, session: Session, now_ms: float) -> float:
        """The longest silence so far."""
        lasting_ms = now_ms - self.heard_ms.get(session, self.since_ms)
        return max(lasting_ms, self.silent_ms.get(session, 0.0))


class SessionWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._nodes = world.nodes
        self._watcher = watcher
        self._claims: dict[str, _Claim] = {}
        """By the controllers that are active by their own events."""
        self._asking: set[Session] = set()
        world.observers.append(self._observe)
        world.mesh.on_serve.append(self._hear)

    def _hear(self, name: str, message: object) -> None:
        heartbeat = message.message if isinstance(message, EncodedRequest) else message
        if not isinstance(heartbeat, BrokerHeartbeatRequest):
            return
        session = int(heartbeat.broker_id), int(heartbeat.broker_epoch)
        if heartbeat.want_fence or heartbeat.want_shut_down or heartbeat.offline_log_dirs:
            self._asking.add(session)
        claim, process = self._claims.get(name), self._nodes[name].process
        if claim is not None and process is not None:
            now_ms = process.monotonic_ms()
            claim.silent_ms[session] = claim.silence_ms(session, now_ms)
            claim.heard_ms[session] = now_ms

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        del fields
        if event in _ENDS:
            self._claims.pop(process.name, None)
        elif event == "claim":
            self._claims[process.name] = _Claim(process.monotonic_ms())
        elif event in _LOOKS and process.node is not None and process.name in self._claims:
            self._look(process, self._claims[process.name])

    def _look(self, process: Incarnation, claim: _Claim) -> None:
        assert process.node is not None, "it is asked before"
        controller, now_ms = process.node.controller, process.monotonic_ms()
        sessions = {(b.id, b.epoch): b.fenced for b in registered_brokers(controller.image.state)}
        for broker, epoch in sorted(claim.unfenced - self._asking):
            if sessions.get((broker, epoch)) and node_name(broker) != process.name:
                shown = {
                    "broker": broker,
                    "silent_ms": claim.silence_ms((broker, epoch), now_ms),
                    "session_ms": controller.heartbeats.session_timeout_ms,
                }
                self._watcher.take(process.name, "broker-fenced", shown)
        claim.unfenced = frozenset(session for session, fenced in sessions.items() if not fenced)
