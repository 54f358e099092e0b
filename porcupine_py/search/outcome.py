"""What an algorithm hands back, and the bounds under which it works."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass

Cancelled = Callable[[], bool]
"""Asked regularly by every check that may take long; True makes it end in UNKNOWN."""

WALL_FACTOR = 20
"""How many times longer than its processor time a check may take by the clock."""


def never() -> bool:
    """Cancel nothing."""
    return False


class Status(enum.StrEnum):
    """Outcome of a check or of a run. Only PASS passes a gate."""

    PASS = "PASS"  # noqa: S105  (a verdict, not a password)
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    """A checker ran out of its budget, or lacked what it needs to judge."""
    UNDER_EXERCISED = "UNDER-EXERCISED"
    """Nothing wrong was seen, but too little was tried for that to mean much."""


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a history that cannot be linearized, and neither can the history for it.

    Everything is taken from the history by these rules (`search.certificate.restrict`).
    """

    operations: tuple[int, ...]
    """Indexes of the operations in it."""
    from_ns: int | None = None
    """What completed before is left out; the state then may be any that the model can reach."""
    horizon_ns: int | None = None
    """What was invoked after is left out, and what was open then stays open."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict of one algorithm on the operations of one key."""

    status: Status
    explanation: str
    kind: str = "not-linearizable"
    """Name of the anomaly when the status is FAIL."""
    linearization: tuple[int, ...] = ()
    """Operation indexes in order; on PASS."""
    window: Window | None = None
    proved_ns: int | None = None
    """On FAIL and UNKNOWN: what completed before this time can be linearized."""
    explored: int = 0
    """Configurations visited."""
    possible: str = ""
    """On FAIL: what the object may have held where every order ends."""


class BudgetExceededError(Exception):
    """A bound was met; the message says which."""


class Budget:
    """Bounds of one check: time, memory and a token by which its caller may end it.

    Time is processor time of this process, all threads added up: a busy machine does not turn a
    verdict into UNKNOWN. A bound of wall time, `WALL_FACTOR` times as long, ends what waits
    (memory that is swapped out, a processor that never comes).
    """

    def __init__(
        self,
        time_limit_s: float = 60.0,
        memory_limit_bytes: int = 1 << 30,
        cancelled: Cancelled = never,
    ) -> None:
        self.time_limit_s = time_limit_s
        self.memory_limit_bytes = memory_limit_bytes
        self.cancelled = cancelled
        self._cpu_deadline_s = time.process_time() + time_limit_s
        self._wall_deadline_s = time.monotonic() + WALL_FACTOR * time_limit_s

    def spend(self, used_bytes: int = 0) -> None:
        """Raise BudgetExceededError when a bound is met; to be called every some hundred steps."""
        if used_bytes > self.memory_limit_bytes:
            limit_mb = self.memory_limit_bytes / (1 << 20)
            raise BudgetExceededError(f"memory limit of {limit_mb:g} MB")
        if time.process_time() > self._cpu_deadline_s:
            raise BudgetExceededError(f"time limit of {self.time_limit_s:g} s")
        if time.monotonic() > self._wall_deadline_s:
            limit_s = WALL_FACTOR * self.time_limit_s
            raise BudgetExceededError(f"wall time limit of {limit_s:g} s")
        if self.cancelled():
            raise BudgetExceededError("cancellation")

    def part(self, time_limit_s: float) -> Budget:
        """Return a budget for a part of the work, never beyond this one's own end."""
        left_s = max(0.0, self._cpu_deadline_s - time.process_time())
        part = Budget(min(time_limit_s, left_s), self.memory_limit_bytes, self.cancelled)
        part._wall_deadline_s = min(part._wall_deadline_s, self._wall_deadline_s)
        return part
