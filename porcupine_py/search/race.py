"""Two compiled searches over one key, in turns: what is easy for one may explode for the other.

Depth first (`wgl`) finds an order fast where almost any way leads to one, and dies of many
concurrent operations; the frontier does not care about concurrency, and dies of many distinct
indeterminate ones. Which it will be cannot be known beforehand. So both get turns, each longer than
the one before: the time is at most a small multiple of what the better one alone takes. The
frontier begins narrow, which can only find orders, and is tried wider when it dies out.

Turns are counted in steps, never in seconds: the winner does not depend on the machine. Between
chunks of some milliseconds the budget is looked at: time, memory, cancellation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from porcupine_py.columns import Int64s
from porcupine_py.kernels import Kernels
from porcupine_py.search.compiled import (
    DIED,
    FOUND,
    MEMORY,
    NONE,
    RUNNING,
    FrontierRun,
    Run,
    WglRun,
)
from porcupine_py.search.encoding import APPEND, Encoded
from porcupine_py.search.outcome import Budget, BudgetExceededError, Status

SEARCHES = ("wgl", "frontier")

_WIDTHS = (16, 256, 4096, 1 << 40)
_CHUNK = {"wgl": 20_000, "frontier": 400}
"""Steps between two looks at the budget; some milliseconds."""
_FIRST_TURN = {"wgl": (8, 2_000), "frontier": (1, 200)}
"""Steps of the first turn: so many for each operation, and so many more."""
_BYTES_MAX = 1 << 62
"""The library counts in 64 bits."""
_TURN_FACTOR, _STUCK_FACTOR = 4, 2
"""How much longer the next turn is: of one that got further in the history, or did not."""


@dataclass(frozen=True, slots=True)
class Raced:
    """The winner, or how far they came."""

    status: Status
    algorithm: str
    order: Int64s | None
    """Positions in the `Encoded`; on PASS."""
    blocked: int
    """Position of the operation at which the furthest order ended; -1: none was met."""
    explored: int
    exceeded: str | None = None
    """Which bound was met; on UNKNOWN."""


def race(
    kernels: Kernels,
    encoded: Encoded,
    states: Sequence[int],
    budget: Budget,
    algorithms: Sequence[str] = SEARCHES,
    *,
    turns: int | None = None,
) -> Raced:
    """Search one key; `states`: those in which it may begin; `turns`: of each search, None: any."""
    runners: list[_Runner] = []
    if "wgl" in algorithms:
        runners.append(_Runner("wgl", encoded, [lambda _: WglRun(kernels, encoded, states)]))
    if "frontier" in algorithms and APPEND not in encoded.code:
        widths = [_frontier(kernels, encoded, states, width) for width in _WIDTHS]
        runners.append(_Runner("frontier", encoded, widths))
    exceeded = f"memory limit of {budget.memory_limit_bytes / (1 << 20):g} MB"
    everyone = list(runners)
    bytes_max = min(budget.memory_limit_bytes // len(everyone), _BYTES_MAX)
    try:
        for runner in _in_turns(runners, turns):
            try:
                status = runner.turn(budget, bytes_max)
                if status == FOUND:
                    return _race_result(Status.PASS, runner, everyone)
            except MemoryError:
                status = MEMORY
            if status == NONE:
                return _race_result(Status.FAIL, runner, everyone)
            if status == MEMORY:
                runners.remove(runner)
        if runners:
            exceeded = f"{turns} turns"
    except BudgetExceededError as error:
        exceeded = str(error)
    furthest = max(everyone, key=_Runner.reached_time)
    return _race_result(Status.UNKNOWN, furthest, everyone, exceeded)


def _in_turns(runners: Sequence[_Runner], turns: int | None) -> Iterator[_Runner]:
    """Go through those that are left, again and again."""
    done = 0
    while runners and done != turns:
        yield from list(runners)
        done += 1


def _frontier(
    kernels: Kernels, encoded: Encoded, states: Sequence[int], width: int
) -> Callable[[int], Run]:
    return lambda bytes_max: FrontierRun(kernels, encoded, states, width, bytes_max)


class _Runner:
    """One search, with the wider ones that follow when it dies out."""

    def __init__(self, name: str, encoded: Encoded, makers: Sequence[Callable[[int], Run]]) -> None:
        self.name = name
        self._encoded = encoded
        self._makers = list(makers)
        self.run: Run | None = None
        self._explored_before = 0
        self._furthest = -1
        each, more = _FIRST_TURN[name]
        self._turn = each * len(encoded.code) + more

    @property
    def explored(self) -> int:
        """Configurations entered, in all widths."""
        return self._explored_before + (self.run.explored if self.run else 0)

    def reached_time(self) -> int:
        """Return the time up to which an order was found, -1: none."""
        at = self.blocked_position()
        return -1 if at < 0 else int(self._encoded.complete_ns[at])

    def blocked_position(self) -> int:
        """Return where the furthest order of any width ended."""
        candidates = [self._furthest, -1 if self.run is None else self.run.blocked_position()]
        end = self._encoded.complete_ns
        return max(candidates, key=lambda at: -1 if at < 0 else int(end[at]))

    def turn(self, budget: Budget, bytes_max: int) -> int:
        """Go on for one turn; DIED does not come out."""
        left, status, before = self._turn, RUNNING, self.reached_time()
        while left > 0 and status == RUNNING:
            budget.spend()
            if self.run is None:
                self.run = self._makers.pop(0)(bytes_max)
            chunk = min(left, _CHUNK[self.name])
            status = self.run.advance(chunk, bytes_max)
            left -= chunk
            if status == DIED:
                self._furthest = self.blocked_position()
                self._explored_before += self.run.explored
                self.run, status = None, RUNNING
        self._turn *= _TURN_FACTOR if self.reached_time() > before else _STUCK_FACTOR
        return status


def _race_result(
    status: Status, winner: _Runner, everyone: Sequence[_Runner], exceeded: str | None = None
) -> Raced:
    run = winner.run
    return Raced(
        status,
        winner.name,
        run.order() if run is not None and status is Status.PASS else None,
        # A wider frontier or the other search may have come further, but this one proved it.
        run.blocked_position()
        if run is not None and status is Status.FAIL
        else winner.blocked_position(),
        sum(runner.explored for runner in everyone),
        exceeded,
    )
