"""Shows what becomes of brokers' sessions at the controllers of a simulated world.

`SessionWatch(world, watcher)` makes the events of `checkers.invariants.sessions`: it hears the
requests of brokers that are handed to controllers, by their clocks, and their answers, and looks at
the active controller at its trace events `hw` and `ack`. The controller's own broker is left out:
what that asks for passes no network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from checkers.invariants.sessions import Registered, Session
from checkers.invariants.sight import node_name
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.encoded import EncodedRequest
from cluster.backends.sim.incarnation import Incarnation, TraceFields
from cluster.backends.sim.world import SimWorld
from cluster.node.assembly import Node
from cluster.node.controller.metadata.registrations import is_active, registered_brokers
from cluster.node.controller.metadata.state import MetadataState
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

_LOOKS = ("hw", "ack")
_ENDS = ("start", "renounce")


@dataclass(slots=True)
class _Claim:
    """What an active controller has heard since it claimed, in ms of its clock."""

    since_ms: float
    rate: float
    """Of the controller's clock."""
    heard_ms: dict[Session, float] = field(default_factory=dict)
    silent_ms: dict[Session, float] = field(default_factory=dict)
    """The longest silence that ended with a heartbeat."""
    unfenced: frozenset[Session] = frozenset()
    """At the last look."""
    overdue_ms: dict[Session, float] = field(default_factory=dict)
    """Those that should be fenced -> since when that is seen."""

    def hear(self, session: Session, now_ms: float) -> None:
        """Take what keeps a session alive."""
        self.silent_ms[session] = self.silence_ms(session, now_ms)
        self.heard_ms[session] = now_ms

    def silence_ms(self, session: Session, now_ms: float) -> float:
        """The longest silence so far."""
        lasting_ms = now_ms - self.heard_ms.get(session, self.since_ms)
        return max(lasting_ms, self.silent_ms.get(session, 0.0))


@dataclass(slots=True)
class _Asked:
    """A request of a broker, as it was handed to the active controller."""

    request: object
    controller: str
    claim: _Claim
    heard_ms: float = -math.inf
    """Of a registration: when the incarnation before was heard of; never, if nothing keeps it."""
    active: frozenset[Session] = frozenset()
    """Of a heartbeat that may let the broker end: all that were active."""
    offset: int = -1
    """Of such a one: at this offset at the earliest the broker leads nothing."""


class SessionWatch:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._nodes = world.nodes
        self._watcher = watcher
        self._claims: dict[str, _Claim] = {}
        """By the controllers that are active by their own events."""
        self._asking: set[Session] = set()
        self._epochs: dict[int, set[int]] = {}
        """By broker: those that were committed."""
        self._not_ending: dict[Session, int] = {}
        """The newest image in which a broker was not shutting down."""
        self._known: dict[Session, int] = {}
        """The metadata offset that a broker has said it knows."""
        self._asked: dict[int, _Asked] = {}
        """The last request of each broker that may change who is registered."""
        world.observe(self._observe, *_ENDS, "claim", *_LOOKS)
        for kind in (EncodedRequest, BrokerRegistrationRequest, BrokerHeartbeatRequest):
            world.mesh.on_serve[kind].append(self._hear)
            world.mesh.on_answer[kind].append(self._answer)
        world.mesh.on_ask[BrokerHeartbeatRequest].append(self._look_at_directories)

    # -- requests --------------------------------------------------------------------------------

    def _hear(self, name: str, message: object) -> None:
        request = message.message if isinstance(message, EncodedRequest) else message
        process, claim = self._nodes[name].process, self._claims.get(name)
        if process is None or process.node is None:
            claim = None
        if isinstance(request, BrokerRegistrationRequest):
            self._asked.pop(int(request.broker_id), None)
            if claim is not None and process is not None:
                self._hear_registration(process, claim, message, request)
        elif isinstance(request, BrokerHeartbeatRequest):
            session = int(request.broker_id), int(request.broker_epoch)
            if request.want_fence or request.want_shut_down or request.offline_log_dirs:
                self._asking.add(session)
            offset = int(request.current_metadata_offset)
            self._known[session] = max(offset, self._known.get(session, -1))
            if claim is not None and process is not None:
                claim.hear(session, process.monotonic_ms())
                self._hear_end(process, claim, message, request)

    def _hear_registration(
        self,
        process: Incarnation,
        claim: _Claim,
        message: object,
        request: BrokerRegistrationRequest,
    ) -> None:
        asked = _Asked(message, process.name, claim)
        known = _image(process).brokers.get(request.broker_id)
        if known is not None:
            session = known.id, known.epoch
            if known.incarnation_id == request.incarnation_id:
                claim.hear(session, process.monotonic_ms())  # it registers again, and goes on
            elif (
                session in claim.unfenced
                and session not in self._asking
                # What an active controller's own broker asks for is seen in its image alone.
                and not known.in_controlled_shutdown
            ):
                asked.heard_ms = claim.heard_ms.get(session, claim.since_ms)
        self._asked[int(request.broker_id)] = asked

    def _hear_end(
        self, process: Incarnation, claim: _Claim, message: object, request: BrokerHeartbeatRequest
    ) -> None:
        number = int(request.broker_id)
        self._asked.pop(number, None)
        session, state = (number, int(request.broker_epoch)), _image(process)
        known = state.brokers.get(request.broker_id)
        if known is None or request.want_fence:
            return
        if known.fenced:
            return  # it leads nothing, and may end whoever knows
        if known.in_controlled_shutdown:
            offset = self._not_ending.get(session)
        else:
            leads = _leads(state, number) and _leads(_newest(process), number)
            offset = _offset(process) if leads and request.want_shut_down else None
        lost = claim.silence_ms(session, process.monotonic_ms()) >= _session_ms(process)
        if lost or request.offline_log_dirs or offset is None:
            return
        # One that is about to be fenced may be active again before this is answered.
        active = _active(state) & _active(_newest(process))
        self._asked[number] = _Asked(message, process.name, claim, active=active, offset=offset + 1)

    def _look_at_directories(self, name: str, request: Any) -> None:
        """Show a heartbeat of a broker that has lost a log directory, and not that of its metadata.

        With that, or the last one, it ends.
        """
        process = self._nodes[name].process
        if process is None or process.node is None or process.node.replicas is None:
            return
        known, logs = _image(process).brokers.get(request.broker_id), process.node.replicas.logs
        lost = {
            directory.directory_id
            for directory in logs.directories
            if directory.is_offline and directory.disk is not self._nodes[name].disk
        }
        if known is None or known.epoch != request.broker_epoch or not lost or not logs.online:
            return
        shown = {
            "broker": known.id,
            "lost": sorted(map(str, lost.intersection(known.log_dirs))),
            "named": sorted(map(str, request.offline_log_dirs)),
        }
        self._watcher.take(name, "heartbeat-sent", shown)

    # -- answers ---------------------------------------------------------------------------------

    def _answer(self, name: str, message: object, response: object) -> None:
        request = message.message if isinstance(message, EncodedRequest) else message
        if not isinstance(request, BrokerRegistrationRequest | BrokerHeartbeatRequest):
            return
        asked = self._asked.get(int(request.broker_id))
        if asked is None or asked.request is not message:
            return
        process = self._nodes[asked.controller].process
        if self._claims.get(asked.controller) is not asked.claim or process is None:
            return
        if name == asked.controller or process.node is None:
            return
        answer = getattr(response, "message", response)
        match request, answer:
            case BrokerRegistrationRequest(), BrokerRegistrationResponse():
                if answer.error_code is ErrorCode.none:
                    self._show_registration(process, asked, request, int(answer.broker_epoch))
            case BrokerHeartbeatRequest(), BrokerHeartbeatResponse():
                if answer.error_code is ErrorCode.none and answer.should_shut_down:
                    self._show_release(process, asked, request)

    def _show_registration(
        self,
        process: Incarnation,
        asked: _Asked,
        request: BrokerRegistrationRequest,
        epoch: int,
    ) -> None:
        broker, previous = int(request.broker_id), int(request.previous_broker_epoch)
        state = _image(process)
        between = (known for known in self._epochs.get(broker, ()) if previous < known < epoch)
        eligible = (
            f"{topic.name}-{index}"
            for (topic_id, index), partition in state.partitions.entries().items()
            if broker in partition.elr and (topic := state.topics.get(topic_id)) is not None
        )
        shown = Registered(
            broker,
            epoch,
            process.monotonic_ms() - asked.heard_ms,
            _session_ms(process),
            is_clean=next(between, None) is None,
            eligible=tuple(sorted(eligible)),
        )
        self._watcher.take(process.name, "broker-registered", {"registered": shown})

    def _show_release(
        self, process: Incarnation, asked: _Asked, request: BrokerHeartbeatRequest
    ) -> None:
        session = int(request.broker_id), int(request.broker_epoch)
        others = asked.active & _active(_image(process))
        shown = {
            "broker": session[0],
            "offset": asked.offset,
            "known": {
                other[0]: self._known.get(other, -1)
                for other in others
                if node_name(other[0]) != process.name and other != session
            },
        }
        self._watcher.take(process.name, "broker-released", shown)

    # -- looks -----------------------------------------------------------------------------------

    def _observe(self, process: Incarnation, event: str, fields: TraceFields) -> None:
        del fields
        if event in _ENDS:
            self._claims.pop(process.name, None)
        elif event == "claim":
            rate = self._nodes[process.name].clock.rate
            self._claims[process.name] = _Claim(process.monotonic_ms(), rate)
        elif process.node is not None and process.name in self._claims:
            self._look(process, process.node, self._claims[process.name])

    def _look(self, process: Incarnation, node: Node, claim: _Claim) -> None:
        now_ms, image = process.monotonic_ms(), node.controller.image
        sessions: dict[Session, bool] = {}
        for broker in registered_brokers(image.state):
            session = broker.id, broker.epoch
            sessions[session] = broker.fenced
            self._epochs.setdefault(broker.id, set()).add(broker.epoch)
            if not broker.in_controlled_shutdown:
                self._not_ending[session] = max(image.offset, self._not_ending.get(session, -1))
        for session in sorted(claim.unfenced - self._asking):
            if sessions.get(session) and node_name(session[0]) != process.name:
                shown = {
                    "broker": session[0],
                    "silent_ms": claim.silence_ms(session, now_ms),
                    "session_ms": _session_ms(process),
                }
                self._watcher.take(process.name, "broker-fenced", shown)
        claim.unfenced = frozenset(session for session, fenced in sessions.items() if not fenced)
        if self._nodes[process.name].clock.rate != claim.rate:
            claim.rate = math.nan  # a timer that it set before may come much later
        else:
            self._look_for_silent(process, claim, now_ms)

    def _look_for_silent(self, process: Incarnation, claim: _Claim, now_ms: float) -> None:
        session_ms, before = _session_ms(process), claim.overdue_ms
        claim.overdue_ms = {}
        for broker in registered_brokers(_newest(process)):
            session = broker.id, broker.epoch
            silent_ms = now_ms - claim.heard_ms.get(session, claim.since_ms)
            if broker.fenced or silent_ms < 2 * session_ms or node_name(broker.id) == process.name:
                continue
            seen_ms = claim.overdue_ms[session] = before.get(session, now_ms)
            if now_ms - seen_ms >= session_ms / 2:
                shown = {"broker": broker.id, "silent_ms": silent_ms, "session_ms": session_ms}
                self._watcher.take(process.name, "broker-silent", shown)


def _image(process: Incarnation) -> MetadataState:
    assert process.node is not None, "it is asked before"
    return process.node.controller.image.state


def _newest(process: Incarnation) -> MetadataState:
    """What an active controller goes by: with what it has appended and not committed yet."""
    assert process.node is not None, "it is asked before"
    return process.node.controller.speculative.state


def _offset(process: Incarnation) -> int:
    assert process.node is not None, "it is asked before"
    return process.node.controller.image.offset


def _leads(state: MetadataState, broker: int) -> bool:
    return any(each.leader == broker for each in state.partitions.entries().values())


def _session_ms(process: Incarnation) -> float:
    assert process.node is not None, "it is asked before"
    return process.node.controller.heartbeats.session_timeout_ms


def _active(state: MetadataState) -> frozenset[Session]:
    return frozenset(
        (broker.id, broker.epoch)
        for broker in registered_brokers(state)
        if is_active(state, broker.id)
    )
