"""A client that never retries and says how certain a failure is.

Each call is one request to the node that the caller names, over the `Network` seam, so the same
client runs in the real and the simulated world. What a workload does is its own choice: no
metadata cache, no redirect to the controller, no second attempt, because each of them would hide
from the history what really happened.

How certain:
- a response without an error: `ok`;
- an error that a controller decides before it appends (`cluster.client.failures`), or a request of
  which no byte left (`Failure.NOT_SENT`) or that the node cannot read
  (`Failure.UNSUPPORTED_VERSION`): `fail`, it certainly had no effect;
- everything else, silence and broken connections above all: `info`.

Errors are named as kio names them (`not_controller`, `request_timed_out`) or, without a response,
as `Failure` does (`timed-out`).

A *wrong answer* is a response of which no sense can be made: bytes that are no such response, no
result or several for one question, an ok about something else than was asked, values that cannot
be. It says nothing about the fate of the request, so it is `info`, with the error `wrong-answer:`
and what was wrong. Reading an answer therefore never raises anything else than CallFailed, and the
check `answers` finds every one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Literal, TypeVar

from cluster.client.failures import DEFINITE_ERRORS
from cluster.node.errors import ErrorCode
from cluster.node.ports import Clock, Endpoint, Failure, Network
from cluster.node.protocol.messages import MetadataRequest, MetadataRequestTopic, TopicName
from cluster.values import valueclass

_GRACE_MS: Final = 1000.0
"""How long after its time-out a network may still report one, before the client gives up on it."""
_WRONG_ANSWER_MAX: Final = 300
"""Characters of a wrong answer in its message."""
T = TypeVar("T")

_DEFINITE_FAILURES: Final = frozenset({Failure.NOT_SENT, Failure.UNSUPPORTED_VERSION})


@valueclass
class Peer:
    """The other end of a request, and how long its answer may take.

    `node_id` of the endpoint is the node's own id: reads of topics compare it with the controller
    that the node names.
    """

    endpoint: Endpoint
    timeout_ms: float


class WrongAnswerError(Exception):
    """What is wrong with an answer."""


@valueclass
class Outcome:
    """How one operation ended: the `type`, `value` and `error` of its completion."""

    type: Literal["ok", "fail", "info"]
    value: Any = None
    error: str | None = None


def only(results: Sequence[Any], **asked: object) -> Any:
    """Return the only result; it must be about what was asked. Raises WrongAnswerError."""
    if len(results) != 1:
        raise WrongAnswerError(f"{len(results)} results for one question")
    for field, value in asked.items():
        answered = getattr(results[0], field)
        if answered != value:
            raise WrongAnswerError(f"{field} is {answered!r}, asked was {value!r}")
    return results[0]


def metadata_of(topics: Iterable[str] | None) -> MetadataRequest:
    """Ask for the brokers, and for topics of these names or all (None); creates none."""
    named = None
    if topics is not None:
        named = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in topics)
    return MetadataRequest(
        topics=named, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


class CallFailed(Exception):  # noqa: N818 - the name that the workloads know it by
    """A request has no response, or a wrong one. `definite`: it certainly had no effect."""

    def __init__(self, failure: Failure, what: str = "") -> None:
        super().__init__(f"{failure.value}: {what}" if what else failure.value)
        self.failure = failure
        self.definite = failure in _DEFINITE_FAILURES

    @property
    def outcome(self) -> Outcome:
        """How an operation ended that was this one request."""
        return Outcome("fail" if self.definite else "info", error=str(self))


class RequestRefused(Exception):  # noqa: N818 - reads as what happened
    """A node answered a request with an error; `outcome`: of an operation that was this request."""

    def __init__(self, error: ErrorCode, *, definite: bool) -> None:
        super().__init__(error.name)
        self.outcome = Outcome("fail" if definite else "info", error=error.name)


def accept(error: ErrorCode, definite: Collection[ErrorCode] | None = None) -> None:
    """Go on where there is no error. Raises RequestRefused.

    `definite`: errors that prove that the request had no effect; None: it never has any.
    """
    if error is not ErrorCode.none:
        raise RequestRefused(error, definite=definite is None or error in definite)


class Caller:
    """Never retries. One logical connection for each node, over the Network seam.

    One client serves one asyncio loop; it holds no state besides its network,
    which its caller opens and closes.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        on_wrong_answer: Callable[[Endpoint, str], object] = lambda _endpoint, _what: None,
        indefinite: Collection[ErrorCode] = (),
    ) -> None:
        """`on_wrong_answer` is called for each, where no operation's completion holds it.

        `indefinite`: errors of `DEFINITE_ERRORS` that prove nothing where this system gives them.
        """
        self._network = network
        self._clock = clock
        self._on_wrong_answer = on_wrong_answer
        self._definite = DEFINITE_ERRORS.difference(indefinite)

    async def call(self, peer: Peer, message: object) -> Any:
        """Send a metadata or raft request and return its response. Raises CallFailed for none."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(reply: object) -> None:
            if not future.done():
                future.set_result(reply)

        given_up_ms = peer.timeout_ms + _GRACE_MS
        guard = self._clock.call_later(given_up_ms, lambda: settle(Failure.TIMED_OUT))
        self._network.request(peer.endpoint, message, peer.timeout_ms, settle)
        try:
            reply = await future
        finally:
            guard.cancel()
        if reply is Failure.WRONG_ANSWER:
            raise self._wrong(peer, message, "its bytes cannot be read")
        if isinstance(reply, Failure):
            raise CallFailed(reply)
        return reply

    async def ask(self, peer: Peer, message: object, read: Callable[[Any], T]) -> T:
        """Send one request and return what `read` makes of the response.

        Raises CallFailed; so does whatever `read` raises, which is handed what a system under test
        says and nobody has looked at. Only RequestRefused passes.
        """
        response = await self.call(peer, message)
        try:
            return read(response)
        except RequestRefused:
            raise
        except WrongAnswerError as error:
            raise self._wrong(peer, message, str(error)) from error
        except Exception as error:
            raise self._wrong(peer, message, f"{type(error).__name__}: {error}") from error

    def _wrong(self, peer: Peer, message: object, what: str) -> CallFailed:
        described = f"answer to {type(message).__name__}: {what}"[:_WRONG_ANSWER_MAX]
        self._on_wrong_answer(peer.endpoint, described)
        return CallFailed(Failure.WRONG_ANSWER, described)

    async def attempt(self, peer: Peer, message: object, read: Callable[[Any], Outcome]) -> Outcome:
        """As `ask`, for an operation that is this one request."""
        try:
            return await self.ask(peer, message, read)
        except (CallFailed, RequestRefused) as failed:
            return failed.outcome

    def wall_ms(self) -> int:
        """Return the wall time, in ms since 1970: for data, such as timestamps of records."""
        return self._clock.wall_ms()

    def accept(self, error: ErrorCode) -> None:
        """Go on where there is no error of what a controller decides. Raises RequestRefused."""
        accept(error, self._definite)
