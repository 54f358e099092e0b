"""Combinators that decide when operations are invoked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from random import Random

from checkers.history import Event, EventType
from harness.run.generators.base import (
    NANOSECONDS,
    Answer,
    Context,
    Done,
    Generator,
    Inside,
    Next,
    Unmoved,
    Wait,
    Worker,
    seconds,
)
from workloads.base import Op

_RATE_MIN_PER_S = 1e-9
"""An operation in 30 years: of a lower rate there is none either."""


class Rate(Inside):
    """At most `per_s` operations a second over all workers.

    A worker reserves the next free moment. Moments are 1/per_s apart on average; with `random`
    the gaps are uniform in [0, 2/per_s), so that operations overlap in varying ways. Time in which
    no worker asked is not made up for by a burst.
    """

    def __init__(self, per_s: float, inner: Generator, random: Random | None = None) -> None:
        assert per_s > 0, "a rate is positive"
        self._gap_ns = NANOSECONDS / max(per_s, _RATE_MIN_PER_S)
        super().__init__(inner)
        self._random = random
        self._free_at_ns = 0

    def op(self, context: Context) -> Answer:
        answer = self._inner.op(context)
        if not isinstance(answer, Next):
            return answer
        at_ns = max(answer.at_ns, self._free_at_ns)
        factor = 1.0 if self._random is None else 2 * self._random.random()
        # From the free moment, not from `at_ns`: one worker's late operation (after a back-off)
        # must not delay those of all other workers.
        self._free_at_ns = max(context.now_ns, self._free_at_ns) + round(self._gap_ns * factor)
        return Next(answer.op, at_ns)


class BackOff(Inside):
    """A worker whose operation ended in `fail` with one of `errors` gets none for `delay_s`.

    A node that does not lead refuses at once; without a pause its worker would fill the history
    with refusals that prove nothing.
    """

    def __init__(self, delay_s: float, errors: Collection[str], inner: Generator) -> None:
        assert delay_s >= 0, "a delay is not negative"
        self._delay_ns = seconds(delay_s)
        self._errors = errors
        super().__init__(inner)
        self._not_before_ns: dict[Worker, int] = {}

    def op(self, context: Context) -> Answer:
        not_before_ns = self._not_before_ns.get(context.worker, 0)
        if context.now_ns < not_before_ns:
            return Wait(not_before_ns, news=False)
        return super().op(context)

    def update(self, context: Context, event: Event) -> None:
        if event.type is EventType.FAIL and event.error in self._errors:
            self._not_before_ns[context.worker] = event.time_ns + self._delay_ns
        super().update(context, event)


class TimeLimit(Inside):
    """Operations that begin within `limit_s` of the first call; then done for every worker."""

    def __init__(self, limit_s: float, inner: Generator) -> None:
        assert limit_s >= 0, "a limit is not negative"
        self._limit_ns = seconds(limit_s)
        super().__init__(inner)
        self._end_ns: int | None = None

    def _until_ns(self, context: Context) -> int:
        """Return when the time is over, which begins with the first call."""
        if self._end_ns is None:
            self._end_ns = context.now_ns + self._limit_ns
        return self._end_ns

    def op(self, context: Context) -> Answer:
        end_ns = self._until_ns(context)
        if context.now_ns >= end_ns:
            return Done()
        answer = self._inner.op(context)
        if isinstance(answer, Next) and answer.at_ns >= end_ns:
            return Done()
        if isinstance(answer, Wait):
            until_ns = end_ns if answer.until_ns is None else answer.until_ns
            return Wait(min(until_ns, end_ns), answer.news)
        return answer


class Patience(TimeLimit):
    """Operations, one at a time, until the first that is not ok once `limit_s` is over.

    The time may be over when one was served late. Those behind it are asked for all the same: what
    nobody asked for, no history shows to be missing.
    """

    def __init__(self, limit_s: float, inner: Generator) -> None:
        super().__init__(limit_s, inner)
        self._is_open = False
        self._in_vain = False
        """Whether the last attempt was not ok."""

    def op(self, context: Context) -> Answer:
        # An open attempt decides: who is done by then cannot pass the barrier behind it.
        is_over = context.now_ns >= self._until_ns(context)
        if is_over and self._in_vain and not self._is_open:
            return Done()
        answer = self._inner.op(context)
        self._is_open |= isinstance(answer, Next)
        return answer

    def update(self, context: Context, event: Event) -> None:
        if event.type is not EventType.INVOKE:
            self._is_open, self._in_vain = False, event.type is not EventType.OK
        super().update(context, event)


class At(Unmoved):
    """Operations at given moments, in seconds after the first call, in order; then done.

    An operation whose moment has passed, because the one before it took long, comes at once.
    """

    def __init__(self, timed_ops: Sequence[tuple[float, Op]]) -> None:
        assert all(a[0] <= b[0] for a, b in pairwise(timed_ops)), "times are in order"
        self._timed_ops = list(timed_ops)
        self._position = 0
        self._origin_ns: int | None = None

    def op(self, context: Context) -> Answer:
        if self._origin_ns is None:
            self._origin_ns = context.now_ns
        if self._position == len(self._timed_ops):
            return Done()
        at_s, op = self._timed_ops[self._position]
        self._position += 1
        return Next(op, max(context.now_ns, self._origin_ns + seconds(at_s)))


class Spaced(Unmoved):
    """Operations of (pause in seconds, operation), each its pause after the one before; then done.

    The iterable is asked for an operation when the one before it has been completed.
    """

    def __init__(self, paced_ops: Iterable[tuple[float, Op]]) -> None:
        self._paced_ops: Iterator[tuple[float, Op]] = iter(paced_ops)
        self.over = False
        """Whether the last operation has been completed."""

    def op(self, context: Context) -> Answer:
        paced = next(self._paced_ops, None)
        if paced is None:
            self.over = True
            return Done()
        pause_s, op = paced
        return Next(op, context.now_ns + seconds(pause_s))


class Until(Inside):
    """Operations that begin before `over` is true; then done for every worker."""

    def __init__(self, over: Callable[[], bool], inner: Generator) -> None:
        self._over = over
        super().__init__(inner)

    def op(self, context: Context) -> Answer:
        return Done() if self._over() else self._inner.op(context)
