"""How the active controller appends: one atomic batch, or many parts, each in a turn of its own.

Fencing a broker that holds 100,000 partitions makes 100,000 records. One event that made and
appended them all would keep the node's task from everything else for longer than an election
takes, and the next leader would begin again. So results that need not be one batch are drawn from
their generator RECORDS_PER_PART at a time. The controller's queue is held meanwhile: no other event
sees the state in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cluster.node.controller.metadata.feature_levels import metadata_version
from cluster.node.controller.metadata.image import SpeculativeState
from cluster.node.controller.metadata.result import (
    RECORDS_PER_BATCH_MAX,
    RECORDS_PER_PART,
    ControllerResult,
    PartlyAppendedError,
    RecordOrMaker,
    RequestError,
)
from cluster.node.controller.metadata.state import ReplayError
from cluster.node.controller.records import (
    MetadataRecord,
    MetadataRecordError,
    encode_record,
    record_version,
)
from cluster.node.errors import ErrorCode
from cluster.node.kraft.raft_client import RaftClient
from cluster.node.kraft.types import BatchTooLargeError, BufferFullError, NotLeaderError
from cluster.node.ports import Clock

# The controller's event queue: one event at a time, in the order in which they came.
#
# Kafka's KafkaEventQueue has a thread of its own. Here the first event that finds the queue idle
# is run at once, and events that arrive while one runs (a commit reported from within an append, a
# request sent from within a reply) wait until it is through. No event ever sees another half done.
#
# An event that takes long holds the queue and goes on in a later turn of the node's task: the
# others wait as before, but raft's elections and fetches, which are not in this queue, do not.


class EventQueue:
    """Runs events to completion, first come, first served."""

    __slots__ = ("_events", "_held", "_running", "failure")

    def __init__(self) -> None:
        self._events: deque[Callable[[], None]] = deque()
        self._running = False
        self._held = False
        self.failure: BaseException | None = None
        """What an event raised. The node must stop; nothing runs any more."""

    @property
    def is_idle(self) -> bool:
        """Whether no event waits, apart from one that may be running."""
        return not self._events

    def append(self, event: Callable[[], None]) -> None:
        """Run an event now, or after those that are before it.

        What an event raises is fatal: it reaches the caller that started the queue, and
        every later one.
        """
        self._check()
        self._events.append(event)
        if not self._running and not self._held:
            self._run()

    def hold(self) -> None:
        """Let no other event run before `resume`: the one that runs is not through."""
        assert self._running, "only an event can hold the queue"
        assert not self._held, "it is held already"
        self._held = True

    def resume(self, event: Callable[[], None]) -> None:
        """Go on with the event that held the queue, then with those that wait."""
        assert self._held, "nothing held the queue"
        assert not self._running
        self._held = False
        self._events.appendleft(event)
        self._run()

    def _check(self) -> None:
        if self.failure is not None:
            raise RuntimeError("the controller has failed") from self.failure

    def _run(self) -> None:
        self._running = True
        try:
            while self._events and not self._held:
                self._events.popleft()()
        except BaseException as failure:
            self.failure = failure
            self._events.clear()
            raise
        finally:
            self._running = False


@dataclass(slots=True)
class _Parts:
    """A result that is being appended."""

    epoch: int
    records: Iterator[RecordOrMaker]
    finish: Callable[[int, int], None]
    fail: Callable[[Exception], None]
    count: int = 0
    last_offset: int = -1


class Appender:
    """Appends to raft and to the speculative state alike."""

    def __init__(
        self, raft: RaftClient, clock: Clock, queue: EventQueue, speculative: SpeculativeState
    ) -> None:
        self.last_offset = -1
        """Of what this node appended, or had replayed when its claim began."""
        self.last_append_ms = 0.0
        self._raft = raft
        self._clock = clock
        self._queue = queue
        self._speculative = speculative

    def begin(self, offset: int) -> None:
        """Begin a claim; `offset` ends the log."""
        self.last_offset = offset
        self.last_append_ms = self._clock.monotonic_ms()

    def append(
        self,
        epoch: int,
        result: ControllerResult[Any],
        finish: Callable[[int, int], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """Append a result in as few batches as it may have; see `append_in_parts`."""
        if not result.is_atomic:
            self.append_in_parts(epoch, result.records, finish, fail)
            return
        records = tuple(result.records)
        try:
            last_offset = self.append_atomically(epoch, records) if records else -1
        except (ReplayError, AssertionError):
            raise
        except Exception as failure:  # noqa: BLE001  # the caller decides what it means
            fail(failure)
            return
        finish(len(records), last_offset)

    def append_atomically(self, epoch: int, records: Iterable[RecordOrMaker]) -> int:
        """Append one batch, and see it from now on. Returns its last offset.

        Raises RequestError or NotLeaderError, in which case nothing was appended; ReplayError.
        """
        # Raft may have appended control records since the last one.
        first_offset = max(self.last_offset + 1, self._raft.next_append_offset or 0)
        made = tuple(
            record if isinstance(record, MetadataRecord) else record(offset)
            for offset, record in enumerate(records, first_offset)
        )
        if len(made) > RECORDS_PER_BATCH_MAX:
            message = f"{len(made)} records; at most {RECORDS_PER_BATCH_MAX} fit"
            raise RequestError(ErrorCode.policy_violation, message)
        level = metadata_version(self._speculative.state)
        try:
            values = [encode_record(record, record_version(record, level)) for record in made]
        except MetadataRecordError as error:  # a name of a client's that no record holds
            raise RequestError(ErrorCode.invalid_request, str(error)) from error
        last_offset = self._prepare(epoch, values)
        assert last_offset - len(made) >= self.last_offset, "append below the end"
        self._speculative.replay(made, last_offset)
        self.last_offset = last_offset
        self.last_append_ms = self._clock.monotonic_ms()
        self._raft.schedule_prepared_append()
        return last_offset

    def _prepare(self, epoch: int, values: Sequence[bytes]) -> int:
        try:
            return self._raft.prepare_append(epoch, values)
        except BufferFullError as error:
            raise RequestError(ErrorCode.throttling_quota_exceeded, str(error)) from error
        except BatchTooLargeError as error:
            raise RequestError(ErrorCode.policy_violation, str(error)) from error

    def append_in_parts(
        self,
        epoch: int,
        records: Iterable[RecordOrMaker],
        finish: Callable[[int, int], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """Append records that need not be one batch; call it, and only it, at an event's end.

        `finish` gets how many they were and the last one's offset. `fail` gets RequestError or
        NotLeaderError when nothing was appended, PartlyAppendedError else.
        """
        self._go_on(_Parts(epoch, iter(records), finish, fail))

    def _go_on(self, parts: _Parts) -> None:
        try:
            part = tuple(islice(parts.records, RECORDS_PER_PART))
            if part:
                parts.last_offset = self.append_atomically(parts.epoch, part)
                parts.count += len(part)
        except (ReplayError, AssertionError):
            raise
        except Exception as error:  # noqa: BLE001  # the caller decides what it means
            is_partial = parts.count and isinstance(error, RequestError | NotLeaderError)
            parts.fail(PartlyAppendedError(str(error)) if is_partial else error)
        else:
            if len(part) < RECORDS_PER_PART:
                parts.finish(parts.count, parts.last_offset)
            else:
                self._queue.hold()
                self._clock.call_later(0, lambda: self._queue.resume(lambda: self._go_on(parts)))
