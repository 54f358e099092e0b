"""BrokerLifecycleManager: a broker's registration with the active controller, kept alive (KIP-631).

    NOT_REGISTERED --BrokerRegistration--> FENCED --heartbeats--> RUNNING
    RUNNING, FENCED --controlled shutdown--> SHUTTING_DOWN --the controller lets go--> STOPPED

One request is under way at a time; an answer that comes after its time-out is ignored. Whatever
fails is tried again, later each time, up to the heartbeat interval: NOT_CONTROLLER and silence
alike, because the channel finds the leader anew for every request. An incarnation registers once;
a broker stays fenced once the controller no longer knows its epoch, until it is restarted. That it
is not registered, yet or any more, it traces once (`unregistered`).
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from cluster.node.broker.lifecycle.exchange import Exchange
from cluster.node.errors import ErrorCode
from cluster.node.ports import Channel, Clock, Failure, Random, Timer, Trace
from cluster.node.protocol import messages
from cluster.node.protocol.messages import i64
from cluster.values import valueclass

RETRY_BACKOFF_MS: Final = 100.0
NOT_REGISTERED_EPOCH: Final = -1
FAILURES_TRACED: Final = 6
"""After so many attempts, some 3 s, a registration takes longer than an election does."""
_LOST_REGISTRATION: Final = frozenset(
    {ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered}
)


class BrokerState(enum.Enum):
    """Where a broker is in its life."""

    NOT_REGISTERED = "not-registered"
    FENCED = "fenced"
    RUNNING = "running"
    SHUTTING_DOWN = "shutting-down"
    STOPPED = "stopped"


class RegistrationTimeoutError(Exception):
    """No controller registered the broker in time: the node must not go on."""


@valueclass
class LifecycleConfig:
    """How the broker registers, and Kafka's properties of the same names."""

    registration: messages.BrokerRegistrationRequest
    """But for the incarnation. `previous_broker_epoch`: of the incarnation that was stopped in
    order before this one; -1: it was not, or never was. Any other than the controller has is an
    unclean shutdown (KIP-966)."""
    heartbeat_interval_ms: float = 2_000
    """broker.heartbeat.interval.ms"""
    session_timeout_ms: float = 9_000
    """broker.session.timeout.ms; a request is given up after half of it."""
    initial_registration_timeout_ms: float = 60_000
    """initial.broker.registration.timeout.ms"""


class BrokerLifecycleManager:
    """Registers, and keeps the session alive. Make it, then `start` it."""

    def __init__(
        self,
        config: LifecycleConfig,
        clock: Clock,
        random: Random,
        trace: Trace,
        channel: Channel,
        metadata_offset: Callable[[], int],
        on_fatal: Callable[[BaseException], None],
        on_caught_up: Callable[[], None] | None = None,
        on_unregistered: Callable[[], None] | None = None,
    ) -> None:
        """`metadata_offset`: of the last record that was published to this broker.

        `on_caught_up`: called once, when the broker has replayed its own registration
        (initialCatchUpFuture). `on_unregistered`: called once, when the controller no longer knows
        this registration.
        """
        self.state = BrokerState.NOT_REGISTERED
        self.broker_epoch = NOT_REGISTERED_EPOCH
        self.ready_to_unfence = False
        """Whether the broker acts on metadata: until then it asks to stay fenced."""
        self.incarnation_id = uuid.UUID(int=random.getrandbits(128), version=4)
        self._config = config
        self._registration = replace(config.registration, incarnation_id=self.incarnation_id)
        self._clock = clock
        self._random = random
        self._trace = trace
        self._metadata_offset = metadata_offset
        self._on_fatal = on_fatal
        self._on_caught_up = on_caught_up
        self._on_unregistered = on_unregistered
        self._unregistered = False
        self._offline: tuple[uuid.UUID, ...] = ()
        self._exchange = Exchange(clock, channel)
        self._failures = 0
        self._timer: Timer | None = None
        self._deadline: Timer | None = None
        self._stopped: Callable[[], None] | None = None

    def start(self) -> None:
        """Begin to register."""
        self._deadline = self._clock.call_later(
            self._config.initial_registration_timeout_ms, self._registration_due
        )
        self._communicate()

    def set_ready_to_unfence(self) -> None:
        """Ask to be unfenced from the next heartbeat on (setReadyToUnfence)."""
        self.ready_to_unfence = True

    def report_offline(self, directory_id: uuid.UUID) -> None:
        """Report with every heartbeat from now on that a log directory is out of use (KIP-858).

        The next is sent at once: what the directory held needs other leaders.
        """
        self._offline = (*self._offline, directory_id)
        if self.state in (BrokerState.FENCED, BrokerState.RUNNING):
            self._schedule(0)

    def begin_controlled_shutdown(self, timeout_ms: float, done: Callable[[], None]) -> None:
        """Ask to be let go; `done` is called once the controller agrees, or the time is over."""
        assert self._stopped is None, "a shutdown has begun already"
        self._stopped = done
        if self.state is BrokerState.NOT_REGISTERED:
            self.stop()
            return
        self._enter(BrokerState.SHUTTING_DOWN)
        self._clock.call_later(timeout_ms, self.stop)
        self._communicate()

    def stop(self) -> None:
        """Fall silent; harmless when that has happened."""
        if self.state is BrokerState.STOPPED:
            return
        self._enter(BrokerState.STOPPED)
        self._exchange.drop()
        for timer in (self._timer, self._deadline):
            if timer is not None:
                timer.cancel()
        if self._stopped is not None:
            self._stopped()

    def _registration_due(self) -> None:
        if self.state is BrokerState.NOT_REGISTERED:
            timeout_ms = self._config.initial_registration_timeout_ms
            self._on_fatal(RegistrationTimeoutError(f"not registered within {timeout_ms:g} ms"))

    def _enter(self, state: BrokerState) -> None:
        if state is not self.state:
            self.state = state
            self._trace("broker-state", state=state.value, broker_epoch=self.broker_epoch)

    def _communicate(self) -> None:
        """Send the request that is due; what is still under way is given up."""
        self._exchange.drop()
        if self._timer is not None:
            self._timer.cancel()
        timeout_ms = self._config.session_timeout_ms / 2
        registered = self.state is not BrokerState.NOT_REGISTERED
        request = self._heartbeat() if registered else self._registration
        self._exchange.begin(request, timeout_ms, self._on_reply)

    def _on_reply(self, reply: Any) -> None:
        failed = isinstance(reply, Failure) or reply.error_code is not ErrorCode.none
        if failed:
            self._failures += 1
            self._note_failure(reply.value if isinstance(reply, Failure) else reply.error_code)
            self._schedule(self._backoff_ms())
            return
        self._failures = 0
        if self.state is BrokerState.NOT_REGISTERED:
            self.broker_epoch = int(reply.broker_epoch)
            self._enter(BrokerState.FENCED)
            self._schedule(0)
        elif self.state is BrokerState.SHUTTING_DOWN:
            if reply.should_shut_down:
                self.stop()
            else:
                self._schedule(RETRY_BACKOFF_MS)
        else:
            self._enter(BrokerState.FENCED if reply.is_fenced else BrokerState.RUNNING)
            if reply.is_caught_up and self._on_caught_up is not None:
                caught_up, self._on_caught_up = self._on_caught_up, None
                caught_up()
            # Not caught up yet: until then clients get nothing from this broker.
            interval_ms = self._config.heartbeat_interval_ms
            soon_ms = min(RETRY_BACKOFF_MS, interval_ms)
            self._schedule(soon_ms if reply.is_fenced else interval_ms)

    def _note_failure(self, error: ErrorCode | str) -> None:
        """Trace, once each, that the registration takes long, or that it is lost."""
        waits = self.state is BrokerState.NOT_REGISTERED
        lost = not waits and error in _LOST_REGISTRATION and not self._unregistered
        if lost or (waits and self._failures == FAILURES_TRACED):
            reason = error.name if isinstance(error, ErrorCode) else error
            self._trace("unregistered", broker_epoch=self.broker_epoch, reason=reason)
        if lost:
            self._unregistered = True
            if self._on_unregistered is not None:
                self._on_unregistered()

    def _backoff_ms(self) -> float:
        grown_ms = RETRY_BACKOFF_MS * 2.0 ** min(self._failures - 1, 10)
        limit_ms = min(grown_ms, self._config.heartbeat_interval_ms)
        return limit_ms * (0.8 + 0.4 * self._random.random())

    def _schedule(self, delay_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_ms, self._communicate)

    def _heartbeat(self) -> messages.BrokerHeartbeatRequest:
        return messages.BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=i64(self.broker_epoch),
            current_metadata_offset=i64(self._metadata_offset()),
            want_fence=not self.ready_to_unfence,
            want_shut_down=self.state is BrokerState.SHUTTING_DOWN,
            offline_log_dirs=self._offline,
        )
