"""One part of a history: a search over a model that the user wrote.

The search is `porcupine_py.search.wgl`: Wing and Gong (1993) with Lowe's memo of (set of
placed operations, state), sets as bits. It is exponential in the worst case (the problem is
NP-complete, Gibbons and Korach 1997), hence bounded in time and memory. It runs in plain Python,
since a model is any Python function. Where a part is hard and the model has few states, as a
register has, the compiled search goes on over a table of its steps (`porcupine_py.tables`).

An operation that returned behind every call, as Porcupine's users let those return of which nothing
is known, may stand behind all others, and nothing has to follow it. It is searched for as if it
were pending, so that not every place for it is tried:

- No order then, none at all: an order of all operations is one of those in which it may be missing.
- An order without some of them goes on with those in order of their calls, and is replayed as an
  order of operations that returned. Where the model refuses one there (its output does say
  something), the search is done again with all of them as they are.

Every order that the search finds is replayed by `porcupine_py.search.certificate`, which
shares no code with it; one that is refused shows a model that is no pure function.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from porcupine_py import models, tables
from porcupine_py.history import PENDING, Operation, ranks
from porcupine_py.model import Model
from porcupine_py.operations import INFINITY_NS, EventType
from porcupine_py.operations import Operation as Placed
from porcupine_py.search import certificate, wgl
from porcupine_py.search.outcome import (
    Budget,
    BudgetExceededError,
    Cancelled,
    Outcome,
    Status,
    never,
)
from porcupine_py.states import ModelError, Rules, StateKey

PLACES_MAX = 2_000_000
"""Places in all orders of one part, beyond which only longer ones than all before are kept."""


class Longest:
    """For each operation the longest partial linearization that holds it.

    Wherever the search cannot go on, what it has placed is a partial linearization. Of those, the
    longest is kept for each operation that it holds, as Porcupine does. What is kept is bounded: an
    illegal history of 10,000 operations would else keep 10,000 orders of 10,000.
    """

    def __init__(self, operations: int) -> None:
        self._operations = operations
        self.begin()

    def begin(self) -> None:
        """Forget everything: the search begins anew."""
        self._best: list[tuple[int, ...]] = [()] * self._operations
        self._places = 0
        self._longest = 0

    def note(self, order: Sequence[int]) -> None:
        """Take an order that does not go on."""
        length = len(order)
        if length <= self._longest and self._places > PLACES_MAX:
            return
        best = self._best
        better = [i for i in order if len(best[i]) < length]
        if better:
            kept = tuple(order)
            for i in better:
                best[i] = kept
            self._places += length
            self._longest = max(self._longest, length)

    def complete(self, order: Sequence[int]) -> None:
        """Take the order that places everything: nothing else matters then."""
        self._best = [tuple(order)]

    def orders(self) -> list[tuple[int, ...]]:
        """Return the different orders, the longest first, else as their numbers sort."""
        return sorted({order for order in self._best if order}, key=lambda o: (-len(o), o))


_PENDING, _RETURNED = "pending", "returned"
_EASY_MIN, _EASY_EACH = 1_000, 2
"""Configurations after which a part is hard: so many for each operation, and at least so many."""


@dataclass(slots=True)
class Part:
    """One part of a history, and what is known of it."""

    operations: tuple[Operation[Any, Any], ...]
    legal: bool | None = None
    """None: not decided yet."""
    limit: str | None = None
    """The bound that ended the search, when it did."""
    linearization: tuple[int, ...] = ()
    """Positions in `operations`, in order; when it is legal."""
    longest: Longest | None = None
    """The partial linearizations, when asked for."""
    late: set[int] | None = None
    """Those that returned behind every call and are searched for as if pending; None: not known."""
    explored: int = 0
    """Configurations entered by the last search."""
    placed: list[Placed] = field(default_factory=list)
    """The operations as the search sees them."""

    @classmethod
    def of(cls, operations: Sequence[Operation[Any, Any]]) -> Part:
        """Lay out operations for the search. Raises HistoryError."""
        rank = ranks(operations)
        placed = [
            Placed(
                index=position,
                process=position,
                f=_PENDING if operation.return_ is None else _RETURNED,
                key=None,
                input=operation.input,
                output=None if operation.return_ is None else operation.output,
                type=EventType.INFO if operation.return_ is None else EventType.OK,
                invoke_ns=rank[operation.call],
                complete_ns=INFINITY_NS if operation.return_ is None else rank[operation.return_],
            )
            for position, operation in enumerate(operations)
        ]
        return cls(tuple(operations), placed=placed)

    def _search(self, checked: _Checked) -> list[Placed]:
        """Return the operations as the search places them."""
        kept = models.relevant(self.placed, checked)
        if self.late is None:
            called_ns = max((o.invoke_ns for o in kept), default=0)
            last = [o for o in kept if called_ns <= o.complete_ns < INFINITY_NS]
            among_others = last if len(last) > 1 else []  # a single one multiplies nothing
            self.late = {o.index for o in among_others if checked.begins_with(o)}
        return [
            replace(o, type=EventType.INFO, complete_ns=INFINITY_NS) if o.index in self.late else o
            for o in kept
        ]

    def judge(self, model: Model[Any, Any, Any], budget: Budget, explored_max: int | None) -> None:
        """Search for an order; `legal` stays None when a bound was met first.

        `explored_max` bounds the configurations, and is no `limit`: the caller comes back. `budget`
        is cancelled when time is over.

        Raises ModelError, and whatever the model's functions raise.
        """
        checked = _Checked(model, budget.cancelled)
        kept = self._search(checked)
        if self.longest is not None:
            self.longest.begin()
        outcome = self._outcome(kept, checked, budget, explored_max)
        self.explored = outcome.explored
        if outcome.status is Status.PASS:
            if not self._accept(model, outcome.linearization):
                self.late = set()
                self.judge(model, budget, explored_max)
        elif outcome.status is Status.FAIL:
            self.legal = False
        elif explored_max is None or outcome.explored <= explored_max:
            self.limit = "time" if budget.cancelled() else "memory"

    def _outcome(
        self, kept: Sequence[Placed], checked: _Checked, budget: Budget, explored_max: int | None
    ) -> Outcome:
        """Search in Python; what is hard and has a table, in the compiled search.

        Partial linearizations are known to the search in Python only.
        """
        if self.longest is not None:
            note = self.longest.note
            return wgl.search(kept, checked, budget, explored_max=explored_max, on_dead_end=note)
        easy = max(_EASY_MIN, _EASY_EACH * len(kept))
        if explored_max is not None and explored_max <= easy:
            return wgl.search(kept, checked, budget, explored_max=explored_max)
        outcome = wgl.search(kept, checked, budget, explored_max=easy)
        if outcome.status is not Status.UNKNOWN or outcome.explored <= easy:
            return outcome
        classes = [checked.same_effect(operation) for operation in kept]
        compiled = tables.search(kept, classes, checked, budget, explored_max)
        return compiled or wgl.search(kept, checked, budget, explored_max=explored_max)

    def _accept(self, model: Model[Any, Any, Any], order: tuple[int, ...]) -> bool:
        """Replay an order; False when only what returned last does not fit behind it."""
        assert self.late is not None
        missing = sorted(self.late.difference(order), key=lambda i: self.placed[i].invoke_ns)
        try:
            order += tuple(missing)
            certificate.verify_order(self.placed, _Checked(model, never), order)
        except Exception as refused:
            if missing:
                return False
            if not isinstance(refused, certificate.RefusedError):
                raise
            raise ModelError(
                f"the order that was found is refused when it is replayed ({refused}): step does "
                "not give the same answer twice, so it is no pure function"
            ) from refused
        self.legal = True
        self.linearization = order
        if self.longest is not None:
            self.longest.complete(order)
        return True


class _Checked(models.Model):
    """A user's model as the search wants it, with an eye on what its functions return."""

    name = "porcupine"

    def __init__(self, model: Model[Any, Any, Any], is_expired: Cancelled) -> None:
        self._model = model
        self._rules: Rules[Any] = Rules(model.equal, model.hash)
        self._is_expired = is_expired

    def init(self) -> models.State:
        return self._rules.key(self._model.init())

    def step(self, state: models.State, operation: Placed) -> tuple[bool, models.State]:
        if self._is_expired():  # here as well: a step may take long
            raise BudgetExceededError("time limit")
        output = PENDING if operation.f == _PENDING else operation.output
        if isinstance(state, StateKey):
            result: Any = self._model.step(state.state, operation.input, output)
            state.check_unchanged()
        else:
            result = self._model.step(state, operation.input, output)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ModelError(f"step returned {result!r:.100}, not (whether it is legal, new state)")
        legal, after = result
        if not legal:
            return False, state
        key = self._rules.key(after)
        if not self.has_effect(operation) and key != state:
            raise ModelError(
                f"the model calls {operation.input!r:.100} read-only, but its step returned "
                "another state"
            )
        return True, key

    def begins_with(self, operation: Placed) -> bool:
        """Return whether an operation may change the state, and may be the first of all.

        What nothing is known of may be; what shows a state mostly may not, and is left as it is.
        """
        try:
            return self.has_effect(operation) and self.step(self.init(), operation)[0]
        except Exception:  # noqa: BLE001  (of a step that the search need not make)
            return False

    def has_effect(self, operation: Placed) -> bool:
        read_only: Callable[[Any], bool] | None = self._model.read_only
        return read_only is None or not read_only(operation.input)

    def same_effect(self, operation: Placed) -> Hashable:
        return (operation.f, exactly(operation.input), exactly(operation.output))

    def describe_operation(self, operation: Placed) -> str:
        del operation
        return ""  # no message of the search is shown: its times are ranks

    def describe_state(self, state: models.State) -> str:
        del state
        return ""


_SCALARS = (type(None), bool, int, str, bytes)


def exactly(value: Any) -> Hashable:
    """Return a name that only inputs have which no pure function can tell apart.

    `==` is too coarse (1 equals True), so an input of an unknown class is only itself.
    """
    kind = type(value)
    if kind in _SCALARS:
        return (kind, value)
    if kind is float:
        return (kind, repr(value))  # 0.0 equals -0.0
    if kind in (tuple, list):
        return (kind, tuple(exactly(item) for item in value))
    return (kind, id(value))
