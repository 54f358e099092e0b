"""Whether a history is linearizable: Porcupine's six functions.

Parts of a history (`Model.partition`) are judged in rounds, each with eight times the
configurations of the round before: where one part is wrong and another is hard, the wrong one is
found first, as with Porcupine, which judges parts side by side. A part is searched anew in each
round, which costs an eighth on top.

Bounds are part of every check. `timeout_s` is time by the clock, as in Porcupine, and 0 stands for
none; it is looked at before each step of the model, and a step that takes long by itself is not
interrupted. `memory_limit_mb` bounds what the search of one part remembers, by its own count of
its tables and of states (what a state only refers to is not counted beyond its elements).
"""

from __future__ import annotations

import enum
import math
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from porcupine_py.history import Event, InputT, Operation, OutputT, operations_of
from porcupine_py.judging import Longest, Part
from porcupine_py.linearization import LinearizationInfo
from porcupine_py.model import Model, StateT
from porcupine_py.operations import HistoryError
from porcupine_py.search.outcome import Budget

MEMORY_LIMIT_MB = 1024.0
_FIRST_ROUND = 1_000
"""Configurations that each part may enter at first."""
_ROUND_FACTOR = 8


class CheckResult(enum.StrEnum):
    """What is known of a history; values are Porcupine's words."""

    OK = "Ok"
    """Linearizable: an order was found, and replayed."""
    ILLEGAL = "Illegal"
    """Not linearizable: every order was tried."""
    UNKNOWN = "Unknown"
    """A bound in time or memory was met first."""


class LimitExceededError(Exception):
    """A check that answers yes or no met its bound in memory, and cannot answer."""


def check_operations(
    model: Model[StateT, InputT, OutputT],
    history: Sequence[Operation[InputT, OutputT]],
    *,
    memory_limit_mb: float = MEMORY_LIMIT_MB,
) -> bool:
    """Return whether a history is linearizable. No bound in time.

    Raises HistoryError for a history that is not well formed, ModelError for a model that is no
    specification, LimitExceededError where the bound in memory was met (MB of 2**20 bytes), and
    ValueError for a bound that is not positive.
    """
    parts = _parts_of_operations(model, history)
    return _yes_or_no(*_judge(model, parts, 0, memory_limit_mb, verbose=False))


def check_operations_timeout(
    model: Model[StateT, InputT, OutputT],
    history: Sequence[Operation[InputT, OutputT]],
    timeout_s: float,
    *,
    memory_limit_mb: float = MEMORY_LIMIT_MB,
) -> CheckResult:
    """Judge a history within `timeout_s` seconds by the clock (0: no bound).

    Raises as `check_operations`, except that a bound in memory is UNKNOWN as well.
    """
    parts = _parts_of_operations(model, history)
    return _judge(model, parts, timeout_s, memory_limit_mb, verbose=False)[0]


def check_operations_verbose(
    model: Model[StateT, InputT, OutputT],
    history: Sequence[Operation[InputT, OutputT]],
    timeout_s: float = 0,
    *,
    memory_limit_mb: float = MEMORY_LIMIT_MB,
) -> tuple[CheckResult, LinearizationInfo]:
    """Judge a history, every part of it, and return what `visualize` draws.

    Slower than the other two: all parts are judged to the end, even beside an illegal one, and
    partial linearizations are kept. Bounds and errors are those of `check_operations_timeout`.
    """
    parts = _parts_of_operations(model, history)
    return _verbose(model, parts, timeout_s, memory_limit_mb)


def check_events(
    model: Model[StateT, InputT, OutputT],
    history: Sequence[Event],
    *,
    memory_limit_mb: float = MEMORY_LIMIT_MB,
) -> bool:
    """Return whether a history of events is linearizable; see `check_operations`."""
    parts = _parts_of_events(model, history)
    return _yes_or_no(*_judge(model, parts, 0, memory_limit_mb, verbose=False))


def check_events_timeout(
    model: Model[StateT, InputT, OutputT],
    history: Sequence[Event],
    timeout_s: float,
    *,
    memory_limit_mb: float = MEMORY_LIMIT_MB,
) -> CheckResult:
    """Judge a history of events within bounds; see `check_operations_timeout`."""
    parts = _parts_of_events(model, history)
    return _judge(model, parts, timeout_s, memory_limit_mb, verbose=False)[0]


def check_events_verbose(
    model: Model[StateT, InputT, OutputT],
    history: Sequence[Event],
    timeout_s: float = 0,
    *,
    memory_limit_mb: float = MEMORY_LIMIT_MB,
) -> tuple[CheckResult, LinearizationInfo]:
    """Judge a history of events and return what `visualize` draws; see `check_operations_verbose`.

    Times are positions in the part's list of events, as in Porcupine.
    """
    parts = _parts_of_events(model, history)
    return _verbose(model, parts, timeout_s, memory_limit_mb)


def _parts_of_operations(
    model: Model[StateT, InputT, OutputT], history: Sequence[Operation[InputT, OutputT]]
) -> list[Part]:
    Part.of(history)  # the whole is well formed, whatever becomes of its parts
    parts = [history] if model.partition is None else model.partition(history)
    found = [Part.of(part) for part in parts]
    of_parts = (operation for part in found for operation in part.operations)
    _check_whole(_times(history), _times(of_parts), "operations")
    return found


def _times(operations: Iterable[Operation[Any, Any]]) -> Counter[Hashable]:
    """Count operations by what a partition keeps that makes them anew, such as without a key."""
    return Counter((operation.call, operation.return_) for operation in operations)


def _parts_of_events(model: Model[StateT, InputT, OutputT], history: Sequence[Event]) -> list[Part]:
    operations_of(history)
    parts = [history] if model.partition_event is None else [*model.partition_event(history)]
    found = [Part.of(operations_of(part)) for part in parts]
    of_parts = (event for part in parts for event in part)
    _check_whole(_ids(history), _ids(of_parts), "events")
    return found


def _ids(events: Iterable[Event]) -> Counter[Hashable]:
    return Counter((event.kind, event.id) for event in events)


def _check_whole(given: Counter[Hashable], found: Counter[Hashable], what: str) -> None:
    """Refuse parts that lack something, which could hide a violation, or hold it twice."""
    lost, more = (given - found).total(), (found - given).total()
    if lost or more:
        raise HistoryError(
            f"the model's partition leaves out {lost} and adds {more} of {given.total()} {what}: "
            "each belongs to one part"
        )


def _verbose(
    model: Model[StateT, InputT, OutputT],
    parts: list[Part],
    timeout_s: float,
    memory_limit_mb: float,
) -> tuple[CheckResult, LinearizationInfo]:
    for part in parts:
        part.longest = Longest(len(part.operations))
    result, limit = _judge(model, parts, timeout_s, memory_limit_mb, verbose=True)
    return result, LinearizationInfo.of(parts, limit)


def _judge(
    model: Model[StateT, InputT, OutputT],
    parts: list[Part],
    timeout_s: float,
    memory_limit_mb: float,
    *,
    verbose: bool,
) -> tuple[CheckResult, str | None]:
    """Judge parts in rounds; returns the result and, when it is UNKNOWN, the bound that was met."""
    if not timeout_s >= 0 or not memory_limit_mb > 0:
        raise ValueError("timeout_s must be 0 or above, and memory_limit_mb above 0")
    deadline_s = time.monotonic() + timeout_s if timeout_s else math.inf
    memory_bytes = int(memory_limit_mb * (1 << 20))
    budget = Budget(math.inf, memory_bytes, lambda: time.monotonic() > deadline_s)
    explored_max = _FIRST_ROUND
    open_parts = sorted(parts, key=lambda part: len(part.operations))
    while open_parts:
        alone = len(open_parts) == 1
        for part in open_parts:
            part.judge(model, budget, None if alone else explored_max)
            if part.legal is False and not verbose:
                return CheckResult.ILLEGAL, None
        open_parts = [part for part in open_parts if part.legal is None and part.limit is None]
        explored_max *= _ROUND_FACTOR
    if any(part.legal is False for part in parts):
        return CheckResult.ILLEGAL, None
    limit = next((part.limit for part in parts if part.limit is not None), None)
    if limit is None:
        return CheckResult.OK, None
    bound = f"{timeout_s:g} s" if limit == "time" else f"{memory_limit_mb:g} MB"
    return CheckResult.UNKNOWN, f"the bound of {bound} was met"


def _yes_or_no(result: CheckResult, limit: str | None) -> bool:
    if result is CheckResult.UNKNOWN:
        raise LimitExceededError(f"not decided: {limit}; check_operations_timeout returns UNKNOWN")
    return result is CheckResult.OK
