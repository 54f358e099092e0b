"""What the control managers hand to the controller, and how a request is answered at most once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from cluster.node.controller.records import MetadataRecord
from cluster.node.errors import ErrorCode
from cluster.node.ports import Timer
from cluster.values import valueclass

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

RECORDS_PER_BATCH_MAX = 10_000
"""MAX_RECORDS_PER_USER_OP: an atomic result is one batch, and this is the largest."""
RECORDS_PER_PART = 1_000
"""How many records of a result that need not be atomic go into one batch."""

OUTCOME_NOT_KNOWN = "leadership was lost after the append; the outcome is not known"


class RequestError(Exception):
    """The whole request is refused before anything is appended."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class PartlyAppendedError(Exception):
    """A result of several batches could not be appended whole: its fate is not known."""


@valueclass
class ApiError:
    """An error code and what it is about."""

    error: ErrorCode
    message: str | None = None


class ItemError(Exception):
    """One item of a request is refused: a topic, a partition, a resource."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.api_error = ApiError(error, message)


NO_ERROR = ApiError(ErrorCode.none)

RecordOrMaker = MetadataRecord | Callable[[int], MetadataRecord]
"""A record; or what makes one from its own offset."""


@valueclass
class ControllerResult(Generic[R_co]):
    """Records to append as one batch, and the response that is due once they are committed.

    Without records the response is a read of speculative state, and is due when everything that
    it may have seen is committed.
    """

    records: Iterable[RecordOrMaker]
    response: R_co
    is_atomic: bool = True
    """Whether the records must be one batch; else many of them become several, each in a turn of
    the node's task: then they are drawn as they are appended, and each part sees the one before."""
    appended: Callable[[int], None] | None = None
    """Called with the last offset once the records are appended, before they are committed."""
    response_at: Callable[[int], R_co] | None = None
    """Takes the place of `response` where that holds the last offset."""


class ErrorResponse(Protocol[R_co]):
    """Builds a request's response when all of it failed alike."""

    def __call__(self, error: ErrorCode, message: str | None) -> R_co:
        """Return the response with this error in every place that has one."""


class PendingReply(Generic[R]):
    """A request that waits for its answer. The first answer counts, later ones are dropped."""

    __slots__ = ("_error_response", "_reply", "answered", "timer")

    def __init__(self, reply: Callable[[R], None], error_response: ErrorResponse[R]) -> None:
        self._reply = reply
        self._error_response = error_response
        self.timer: Timer | None = None
        """Cancelled when the answer is given."""
        self.answered = False

    def complete(self, response: R) -> None:
        """Answer."""
        if self.answered:
            return
        self.answered = True
        if self.timer is not None:
            self.timer.cancel()
        self._reply(response)

    def fail(self, error: ErrorCode, message: str | None = None) -> None:
        """Answer with an error."""
        if not self.answered:
            self.complete(self._error_response(error, message))
