"""Requests that a broker takes for the active controller (ForwardingManager, KIP-590).

It wraps them in an Envelope and sends them on; stock clients rely on it, because they may ask any
broker. A node that is the active controller as well answers them itself. Only broker-type listeners
forward: a harness that talks to controller listeners learns from NOT_CONTROLLER that nothing was
appended.

A fail-over is not the client's business: a request is *held* while no leader is known, and when it
was certainly not appended (no byte left, or the controller answered NOT_CONTROLLER), until another
attempt succeeds. All that are held are tried again as soon as a leader is known, else with a
growing backoff, in the order in which they came.

A request that was sent and got no answer is not sent again, unless it is a read. Kafka's channel
puts it back at the head of its queue (NodeToControllerRequestThread.handleResponse): it is carried
out at least once, and a client can be answered TOPIC_ALREADY_EXISTS for the topic that its very
request created. Here it is REQUEST_TIMED_OUT, at once.

What becomes of a request is reported as far as it is known: what was never appended ends in
NOT_CONTROLLER (REQUEST_TIMED_OUT in Kafka, which has forgotten what it knew), what may have been in
REQUEST_TIMED_OUT. An Envelope that the controller refuses is UNKNOWN_SERVER_ERROR, as in Kafka:
whatever is wrong with it is not the client's fault.

NOT_CONTROLLER proves that only where every controller is ours: Apache Kafka's gives it to appended
writes, too. Beside such, `kraftprobe.forwarding.hold=false` passes every answer on as it comes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cluster.node.controller.apis.write_apis import error_response
from cluster.node.envelope import FORWARDABLE, EnvelopeError, contains, seal, unseal_response
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import AddVoterRequest, DescribeQuorumRequest
from cluster.node.ports import Clock, Endpoint, Failure, Network, Timer
from cluster.node.protocol import messages
from cluster.node.protocol.apis import ANONYMOUS, ApiKey, Origin, highest_request_class
from cluster.node.protocol.raft_codec import REQUEST_KEYS
from cluster.node.wire.bounds import MalformedError

DEFAULT_TIMEOUT_MS: Final = 30_000.0
"""For requests that carry no time-out of their own: request.timeout.ms."""
HOLD_MAX_MS: Final = 60_000.0
"""How long a request is held at most, whatever its time-out (the channel's retryTimeoutMs)."""
HOLD_SHARE: Final = 0.9
"""Of its time-out a request is held: the rest is for the answer's way back, lest the client give up
first and never learn that nothing was appended."""
MAX_HELD_REQUESTS: Final = 500
"""As many as Kafka queues (queued.max.requests); further ones are answered as they would be now."""
MAX_HELD_BYTES: Final = 16 * 1024 * 1024
RETRY_BACKOFF_MS: Final = 50.0
RETRY_BACKOFF_MAX_MS: Final = 1_000.0

Reply = Callable[[Any], None]

_LOST: Final = frozenset({Failure.DISCONNECTED, Failure.TIMED_OUT})
_READS: Final[tuple[type[Any], ...]] = (
    DescribeQuorumRequest,
    messages.ListPartitionReassignmentsRequest,
)
"""May be asked twice."""

_FORWARDED: Final[frozenset[type[Any]]] = frozenset(
    {highest_request_class(ApiKey(key)) for key in FORWARDABLE}
    | {flat for flat, key in REQUEST_KEYS.items() if key in FORWARDABLE}
)


def is_for_controller(message: object) -> bool:
    """Return whether only the active controller can answer a request."""
    return type(message) in _FORWARDED


@dataclass(slots=True, eq=False)
class _Request:
    """One request until it is answered."""

    listener: str
    message: Any
    reply: Reply
    origin: Origin
    deadline_ms: float
    hold_until_ms: float
    held_bytes: int | None = None
    """None: it was not held yet."""


class ForwardingManager:
    """Finds the active controller for each request, and holds those for which there is none."""

    def __init__(
        self,
        clock: Clock,
        network: Network,
        leader: Callable[[], Endpoint | None],
        leads: Callable[[], bool],
        handle_here: Callable[[str, Any, Reply, Origin], None],
        *,
        holds: bool,
    ) -> None:
        """See the module.

        `leader`: where the leader listens, None when that is not known. `leads`: whether this node
        does. `handle_here` gets listener, request, reply and origin.
        """
        self._clock = clock
        self._network = network
        self._leader = leader
        self._leads = leads
        self._handle_here = handle_here
        self._holds = holds
        self._waiting: list[_Request] = []
        """Those to be tried again, oldest first."""
        self._held = 0
        self._held_bytes = 0
        self._backoff_ms = RETRY_BACKOFF_MS
        self._timer: Timer | None = None
        self._due_ms = 0.0

    def forward(
        self, listener: str, message: Any, reply: Reply, origin: Origin = ANONYMOUS
    ) -> None:
        """Have the active controller answer a request of `origin` that came on a listener."""
        timeout_ms = max(_timeout_ms(message), 1.0)
        now_ms = self._clock.monotonic_ms()
        hold_until_ms = now_ms + HOLD_SHARE * min(timeout_ms, HOLD_MAX_MS)
        self._try(_Request(listener, message, reply, origin, now_ms + timeout_ms, hold_until_ms))

    def leader_changed(self) -> None:
        """Try again soon what is held, if there is a leader now."""
        self._backoff_ms = RETRY_BACKOFF_MS
        if self._waiting and (self._leads() or self._leader() is not None):
            self._arm(self._clock.monotonic_ms())

    def release(self) -> None:
        """Answer what waits: there is no hope for it, or no time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._refuse(request, "this broker no longer waits for a controller")

    def close(self) -> None:
        """Answer what waits, and hold nothing more."""
        self._holds = False
        self.release()

    # --- attempts ---

    def _try(self, request: _Request) -> None:
        left_ms = request.deadline_ms - self._clock.monotonic_ms()
        message = request.message
        if request.held_bytes is not None:
            message = _with_timeout(message, left_ms)
        leader = None if self._leads() else self._leader()
        if leader is not None:
            on_reply = _once(lambda response: self._take(request, leader, response))
            envelope = seal(message, request.origin)
            self._network.request(leader, envelope, max(left_ms, 1.0), on_reply)
        elif self._leads() or not self._holds:
            on_reply = _once(lambda response: self._take_own(request, response))
            self._handle_here(request.listener, message, on_reply, request.origin)
        else:
            self._hold(request, "no leader of the quorum is known")

    def _take_own(self, request: _Request, response: Any) -> None:
        if self._may_hold(request) and _is_refused(request.message, response):
            self._hold(request, "this node is not the active controller")
        else:
            self._finish(request, response)

    def _take(self, request: _Request, leader: Endpoint, response: Any) -> None:
        """Take what the network has for an attempt at `leader`."""
        message = request.message
        where = f"forwarding to node {leader.node_id}: "
        if isinstance(response, Failure):
            if response is Failure.NOT_SENT:
                self._hold(request, where + response.value)
            elif isinstance(message, _READS) and response in _LOST:
                self._hold(request, where + response.value, ErrorCode.request_timed_out)
            elif response is Failure.UNSUPPORTED_VERSION:
                self._refuse(request, where + response.value)
            else:
                self._fail(request, ErrorCode.request_timed_out, where + response.value)
            return
        try:
            answer = unseal_response(message, response)
        except EnvelopeError as refused:
            if refused.error is ErrorCode.not_controller:
                self._hold(request, f"{where}{refused} ({refused.error.name})")
            else:
                detail = f"{where}{refused} ({refused.error.name})"
                self._fail(request, ErrorCode.unknown_server_error, detail)
        except MalformedError as malformed:
            self._fail(request, ErrorCode.unknown_server_error, f"{where}{malformed}")
        else:
            if self._may_hold(request) and _is_refused(message, answer):
                self._hold(request, f"{where}it does not lead")
            else:
                self._finish(request, answer)

    # --- holding ---

    def _may_hold(self, request: _Request) -> bool:
        return self._holds and self._clock.monotonic_ms() < request.hold_until_ms

    def _hold(
        self, request: _Request, why: str, error: ErrorCode = ErrorCode.not_controller
    ) -> None:
        """Keep a request for another attempt that cannot do harm, else answer with the error."""
        if not self._may_hold(request) or not self._has_room(request):
            self._fail(request, error, why)
            return
        self._waiting.append(request)
        now_ms = self._clock.monotonic_ms()
        self._arm(min(now_ms + self._backoff_ms, request.hold_until_ms))

    def _has_room(self, request: _Request) -> bool:
        if request.held_bytes is not None:
            return True  # it has its place already
        size_bytes = len(seal(request.message, request.origin).request_data)
        if self._held >= MAX_HELD_REQUESTS or self._held_bytes + size_bytes > MAX_HELD_BYTES:
            return False
        request.held_bytes = size_bytes
        self._held += 1
        self._held_bytes += size_bytes
        return True

    def _arm(self, due_ms: float) -> None:
        """Have one timer, due no later than that."""
        if self._timer is not None:
            if self._due_ms <= due_ms:
                return
            self._timer.cancel()
        self._due_ms = due_ms
        # Not 0: what vanishes in the clock's rounding would be due again and again.
        delay_ms = max(1.0, due_ms - self._clock.monotonic_ms())
        self._timer = self._clock.call_later(delay_ms, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self._backoff_ms = min(2 * self._backoff_ms, RETRY_BACKOFF_MAX_MS)
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            if self._may_hold(request):
                self._try(request)
            else:
                self._refuse(request, "there was no active controller in time")

    # --- answers ---

    def _refuse(self, request: _Request, why: str) -> None:
        """Answer a request that was certainly not appended."""
        self._fail(request, ErrorCode.not_controller, why)

    def _fail(self, request: _Request, error: ErrorCode, why: str) -> None:
        self._finish(request, error_response(request.message, error, why))

    def _finish(self, request: _Request, response: Any) -> None:
        if request.held_bytes is not None:
            self._held -= 1
            self._held_bytes -= request.held_bytes
            if not self._held:
                self._backoff_ms = RETRY_BACKOFF_MS
        request.reply(response)


def _once(take: Reply) -> Reply:
    """Return what passes the first answer on: a faulty network may deliver twice."""
    answered = False

    def on_reply(response: Any) -> None:
        nonlocal answered
        if not answered:
            answered = True
            take(response)

    return on_reply


def _is_refused(message: Any, response: Any) -> bool:
    """Return whether the one asked is not the leader, and appended nothing."""
    if contains(response, ErrorCode.not_controller):
        return True
    # A change of the voters may have been appended then; nothing that was only asked for.
    return isinstance(message, _READS) and contains(response, ErrorCode.not_leader_or_follower)


def _timeout_ms(message: Any) -> float:
    if isinstance(message, AddVoterRequest):
        return message.timeout_ms
    timeout = getattr(message, "timeout", None)
    return DEFAULT_TIMEOUT_MS if timeout is None else timeout.total_seconds() * 1000


def _with_timeout(message: Any, timeout_ms: float) -> Any:
    """Return the request with what is left of its time-out, if it carries one."""
    if isinstance(message, AddVoterRequest):
        return dataclasses.replace(message, timeout_ms=int(timeout_ms))
    if getattr(message, "timeout", None) is None:
        return message
    return dataclasses.replace(message, timeout=messages.milliseconds(int(timeout_ms)))
