"""Wing-Gong-Lowe search for an order that the model and real time allow.

Theory: Wing and Gong (1993) try every minimal operation (one that no completed, still unplaced
operation precedes) as the next in the order, and go back when the model refuses. Lowe (2017) adds
the memo: two paths that placed the same set of operations and reached the same state have the same
future, so a configuration (set, state) is entered once. The set is a bit set; since operations are
placed almost in order of invocation, it is kept as the count of the leading placed ones and a
short integer of the rest.

Indeterminate operations have no completion: nothing waits for them, and the search ends when all
others are placed. Four rules keep them and reads from multiplying the work; none loses an order:

- A configuration is not entered where one was that differs in having spent fewer of them: that one
  can do whatever this one can. (Of all entered ones from which an order can be completed take the
  one that lacks fewest operations. If the next step of its order was refused, it was for a
  configuration that lacks no more: it would have been the one to take.) So that those with few are
  entered first, operations are spent in breadth between two determinate ones. Depth first would
  enter the sets of n lost registrations of different brokers one by one, 2^n of them.

- Only the first unplaced one of several that would do the same is tried: it was invoked first, so
  it may stand wherever a later one stands, and nothing has to follow either.
- One that would leave the state as it is now is not placed: leaving it for later allows more.
- A determinate operation without effect (`Model.has_effect`) that is minimal and leaves the state
  as it is gets placed at once and without alternative: moving it there from any later place breaks
  no rule. (A write of the value that is there now must not: it may be needed later.)

Soundness and completeness: PASS comes with the order found; FAIL means that every configuration
was visited. Complexity: exponential in the number of concurrent operations in the worst case
(the problem is NP-complete, Gibbons and Korach 1997); hence the bounds in time and memory.

`kernels.wgl` does the same over integers. This one stays beside it because a model
may be any Python class, and because it is done with a short history before a kernel is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from porcupine_py.models.base import Model, State
from porcupine_py.operations import INFINITY_NS, EventType, Operation
from porcupine_py.search.outcome import Budget, BudgetExceededError, Outcome, Status, Window
from porcupine_py.search.wording import no_order

_MEMO_ENTRY_BYTES = 260
"""A memo entry: a tuple of four numbers, the numbers, and its share of the set's table."""
_SPEND_EVERY = 256
"""Configurations between two looks at the budget."""


def search(
    operations: Sequence[Operation],
    model: Model,
    budget: Budget,
    initial: Sequence[State] | None = None,
    *,
    explored_max: int | None = None,
    on_dead_end: Callable[[list[int]], None] | None = None,
) -> Outcome:
    """Judge the operations of one key.

    `operations` come from `porcupine_py.models.relevant`, `model` was prepared for them. `initial`
    lists the states in which the history may begin; by default the model's own. `explored_max`
    bounds the configurations. `on_dead_end` is given the indexes of what is placed, in order,
    wherever the walk cannot go on.
    """
    run = _Search(operations, model, budget)
    run.explored_max = explored_max
    run.on_dead_end = on_dead_end
    states = [model.init()] if initial is None else initial
    try:
        found = any(run.from_state(state) for state in states)
    except BudgetExceededError as error:
        run.note_dead_end()
        return run.outcome(Status.UNKNOWN, f"{error} met after {run.explored} configurations")
    if found:
        placed = f"{len(run.path)} of {len(operations)} operations placed in order"
        return run.outcome(Status.PASS, placed)
    return run.outcome(Status.FAIL, run.explain())


@dataclass(slots=True)
class _Level:
    """A set of placed determinate operations: what may come next."""

    lifted: tuple[int, ...]
    """What was placed since the level before: indeterminate ones, then a determinate one."""
    low: int
    bits: int
    spent: int
    """Indeterminate operations that are placed, as a set of bits."""
    state: int
    ready: list[int]
    """Determinate operations, the best one last."""
    spare: list[int]
    """Indeterminate operations."""
    alternatives: list[int]
    """Those of `ready` that were not tried from this state yet."""
    is_forced: bool
    chosen: tuple[int, ...] = ()
    """Indeterminate operations that are placed on this level."""
    waiting: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    """(spent, state, chosen) to go on from, those with the fewest chosen ones first."""


class _Search:
    """The list of unplaced calls and returns, and the depth-first walk over it."""

    def __init__(self, operations: Sequence[Operation], model: Model, budget: Budget) -> None:
        self.given = operations
        self.operations = operations = model.useful(operations)
        self.model = model
        self.budget = budget
        self.explored = 0
        self.explored_max: int | None = None
        self.on_dead_end: Callable[[list[int]], None] | None = None
        self.path: list[int] = []
        self.furthest = -1
        """Rank of the last return at which the walk was blocked."""
        self.blocked = -1
        """Its operation."""
        self.blocked_state = -1
        self._states: list[State] = []
        self._state_ids: dict[State, int] = {}
        self._own_equal = type(model).equal is not Model.equal
        self._steps: list[dict[int, int]] = [{} for _ in operations]
        self._memo: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._used_bytes = 0
        self._lay_out()

    def _lay_out(self) -> None:
        """Build the doubly linked list: call i is entry i, its return is entry n + i.

        At equal times calls stand before returns: intervals are closed.
        """
        count = len(self.operations)
        entries: list[tuple[int, int, int, int]] = []
        bit = 0
        indeterminate_bit = 0
        last_alike: dict[Hashable, int] = {}
        self._bit = [0] * count
        self._indeterminate = [operation.type is EventType.INFO for operation in self.operations]
        self._alike_before = [-1] * count
        self._pure = [not self.model.has_effect(operation) for operation in self.operations]
        for i, operation in enumerate(self.operations):
            entries.append((operation.invoke_ns, 0, i, i))
            if self._indeterminate[i]:
                self._bit[i] = indeterminate_bit
                indeterminate_bit += 1
                alike = self.model.same_effect(operation)
                self._alike_before[i] = last_alike.get(alike, -1)
                last_alike[alike] = i
            else:
                self._bit[i] = bit
                bit += 1
                assert operation.invoke_ns <= operation.complete_ns < INFINITY_NS
                entries.append((operation.complete_ns, 1, i, count + i))
        entries.sort()
        order = [entry for _, _, _, entry in entries]
        self._end = self._head = 2 * count
        self._rank = [sys.maxsize] * (2 * count + 1)
        for rank, entry in enumerate(order):
            self._rank[entry] = rank
        ring = [self._head, *order]
        self._next = [self._end] * (2 * count + 1)
        self._previous = [self._head] * (2 * count + 1)
        for left, right in zip(ring, [*order, self._end], strict=True):
            self._next[left] = right
            self._previous[right] = left
        self._return_rank = self._rank[count:]

    def from_state(self, state: State) -> bool:
        """Walk from one initial state; True when every determinate operation was placed."""
        level = self._enter((), 0, 0, 0, self._intern(state))
        levels: list[_Level] = []
        went_on = False
        while level is not None:
            step = self._first_new(level)
            if step is not None:
                levels.append(level)
                for placed in step[0]:
                    self._lift(placed)
                self.path.extend(step[0])
                level = self._enter(*step)
                went_on = True
            elif not levels:
                return False
            else:
                if went_on:
                    self.note_dead_end()
                    went_on = False
                for placed in reversed(level.lifted):
                    self._unlift(placed)
                    self.path.pop()
                level = levels.pop()
        return True

    def note_dead_end(self) -> None:
        """Hand on what is placed, if anybody wants it."""
        if self.on_dead_end is not None:
            self.on_dead_end([self.operations[i].index for i in self.path])

    def _enter(
        self, lifted: tuple[int, ...], low: int, bits: int, spent: int, state: int
    ) -> _Level | None:
        """List what may come next; None when no determinate operation is left."""
        count, following, open_ended = len(self.operations), self._next, self._indeterminate
        entry = following[self._head]
        ready: list[int] = []
        spare: list[int] = []
        while entry < count:
            (spare if open_ended[entry] else ready).append(entry)
            entry = following[entry]
        if entry == self._end:
            return None
        if self._rank[entry] > self.furthest:
            self._note_furthest(entry, state)
        if len(ready) > 1:
            ready.sort(key=self._return_rank.__getitem__, reverse=True)
        level = _Level(lifted, low, bits, spent, state, ready, spare, [], is_forced=False)
        self._begin(level)
        return level

    def _begin(self, level: _Level) -> None:
        """List what to try from the level's state."""
        for entry in level.ready:
            if self._pure[entry] and self._after(entry, level.state) == level.state:
                level.alternatives, level.is_forced = [entry], True
                return
        level.alternatives, level.is_forced = list(level.ready), False

    def _is_first(self, entry: int, indeterminate: int) -> bool:
        """Return whether no unplaced indeterminate operation before it would do the same."""
        alike = self._alike_before[entry]
        return alike < 0 or bool(indeterminate >> self._bit[alike] & 1)

    def _note_furthest(self, entry: int, state: int) -> None:
        self.furthest = self._rank[entry]
        self.blocked = entry - len(self.operations)
        self.blocked_state = state

    def _first_new(self, level: _Level) -> tuple[tuple[int, ...], int, int, int, int] | None:
        """Take alternatives until one is legal and leads to a configuration that is new.

        Returns what `_enter` takes. Indeterminate operations come in breadth: what fewer of them
        can do is known before more are tried, which then are dropped where they lead no further.
        """
        while True:
            while level.alternatives:
                placed = level.alternatives.pop()
                after = self._after(placed, level.state)
                if after < 0:
                    continue
                bits = level.bits | 1 << (self._bit[placed] - level.low)
                ones = (~bits & (bits + 1)).bit_length() - 1
                low, bits = level.low + ones, bits >> ones
                if self._is_new(low, bits, level.spent, after):
                    return (*level.chosen, placed), low, bits, level.spent, after
            if not level.is_forced:
                self._spend(level)
            if not level.waiting:
                return None
            level.spent, level.state, level.chosen = level.waiting.pop(0)
            self._begin(level)

    def _spend(self, level: _Level) -> None:
        """Add each indeterminate operation to those that are placed on the level."""
        for i in level.spare:
            bit = 1 << self._bit[i]
            if level.spent & bit or not self._is_first(i, level.spent):
                continue
            after = self._after(i, level.state)
            if after < 0 or after == level.state:
                continue
            if self._is_new(level.low, level.bits, level.spent | bit, after):
                level.waiting.append((level.spent | bit, after, (*level.chosen, i)))

    def _is_new(self, low: int, bits: int, spent: int, state: int) -> bool:
        """Remember a configuration, unless one was entered that spent no other operations."""
        key = low, bits, state
        entered = self._memo.get(key, ())
        for less in entered:
            if not less & ~spent:
                return False
        if entered:
            entered = tuple(more for more in entered if spent & ~more)
        self._memo[key] = (*entered, spent)
        self.explored += 1
        self._used_bytes += _MEMO_ENTRY_BYTES + (bits.bit_length() + spent.bit_length()) // 8
        if self.explored_max is not None and self.explored > self.explored_max:
            raise BudgetExceededError(f"limit of {self.explored_max} configurations")
        if self.explored % _SPEND_EVERY == 0:
            self.budget.spend(self._used_bytes)
        return True

    def _after(self, i: int, state: int) -> int:
        """Return the state after operation i, -1 when the model refuses."""
        known = self._steps[i].get(state)
        return self._step(i, state) if known is None else known

    def _step(self, i: int, state: int) -> int:
        """Return the state after operation i, -1 when the model refuses, and remember it."""
        legal, after = self.model.step(self._states[state], self.operations[i])
        known = self._steps[i][state] = self._intern(after) if legal else -1
        self._used_bytes += 100
        return known

    def _intern(self, state: State) -> int:
        """Return the number of a state; equal states have the same one."""
        known = self._state_ids.get(state)
        if known is None:
            known = len(self._states)
            if self._own_equal:
                equal = (i for i, s in enumerate(self._states) if self.model.equal(s, state))
                known = next(equal, known)
            self._state_ids[state] = known
            self._states.append(state)
            self._used_bytes += 200 + sys.getsizeof(state)
        return known

    def _lift(self, i: int) -> None:
        """Take call and return out of the list; the taken entries remember their neighbours."""
        following, previous = self._next, self._previous
        entries = (i,) if self._indeterminate[i] else (i, len(self.operations) + i)
        for entry in entries:
            left, right = previous[entry], following[entry]
            following[left], previous[right] = right, left

    def _unlift(self, i: int) -> None:
        """Put them back, in reverse order."""
        following, previous = self._next, self._previous
        entries = (i,) if self._indeterminate[i] else (len(self.operations) + i, i)
        for entry in entries:
            following[previous[entry]] = previous[following[entry]] = entry

    def explain(self) -> str:
        """Say which operation finds no place."""
        blocked = self.operations[self.blocked]
        state = self.model.describe_state(self._states[self.blocked_state])
        return no_order(self.operations, self.model, blocked, state)

    def outcome(self, status: Status, explanation: str) -> Outcome:
        """Translate positions to operation indexes."""
        path = self.path if status is Status.PASS else ()
        blocked = self.operations[self.blocked] if self.furthest >= 0 else None
        horizon_ns = blocked.complete_ns if blocked else None
        window = None
        if status is Status.FAIL:
            assert horizon_ns is not None, "a search fails at a completion"
            window = prefix_window(self.given, self.model, horizon_ns)
        return Outcome(
            status,
            explanation,
            linearization=tuple(self.operations[i].index for i in path),
            window=window,
            proved_ns=None if status is Status.PASS else horizon_ns,
            explored=self.explored,
        )


def prefix_window(operations: Sequence[Operation], model: Model, horizon_ns: int) -> Window:
    """Return the window of what was invoked up to a completion that no order reaches.

    Of what was open then only operations with effect count.
    """
    within = (
        o.index
        for o in operations
        if o.complete_ns <= horizon_ns or (o.invoke_ns <= horizon_ns and model.has_effect(o))
    )
    return Window(tuple(within), horizon_ns=horizon_ns)
