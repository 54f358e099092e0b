"""Wing-Gong-Lowe search for an order that the model and real time allow.

Theory: Wing and Gong (1993) try every minimal operation (one that no completed, still unplaced
operation precedes) as the next in the order, and go back when the model refuses. Lowe (2017) adds
the memo: two paths that placed the same set of operations and reached the same state have the same
future, so a configuration (set, state) is entered once. The set is a bit set; since operations are
placed almost in order of invocation, it is kept as the count of the leading placed ones and a
short integer of the rest.

Indeterminate operations have no completion: nothing waits for them, and the search ends when all
others are placed. Three rules keep them and reads from multiplying the work; none loses an order:

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
from dataclasses import dataclass

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
class _Frame:
    """One placed operation: what to restore, and what else to try in its place."""

    placed: int
    low: int
    bits: int
    indeterminate: int
    state: int
    alternatives: list[int]


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
        self._memo: set[tuple[int, int, int, int]] = set()
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
        frames: list[_Frame] = []
        low = bits = indeterminate = 0
        at = self._intern(state)
        alternatives = self._candidates(at, indeterminate)
        went_on = False
        while alternatives is not None:
            step = self._first_new(alternatives, low, bits, indeterminate, at)
            if step is not None:
                placed, key = step
                frames.append(_Frame(placed, low, bits, indeterminate, at, alternatives))
                self._lift(placed)
                self.path.append(placed)
                low, bits, indeterminate, at = key
                alternatives = self._candidates(at, indeterminate)
                went_on = True
            elif not frames:
                return False
            else:
                if went_on:
                    self.note_dead_end()
                    went_on = False
                frame = frames.pop()
                self.path.pop()
                self._unlift(frame.placed)
                low, bits, indeterminate = frame.low, frame.bits, frame.indeterminate
                at, alternatives = frame.state, frame.alternatives
        return True

    def note_dead_end(self) -> None:
        """Hand on what is placed, if anybody wants it."""
        if self.on_dead_end is not None:
            self.on_dead_end([self.operations[i].index for i in self.path])

    def _candidates(self, state: int, indeterminate: int) -> list[int] | None:
        """List the operations that may come next, the best one last; most are never tried.

        None when no determinate operation is left.
        """
        # The innermost loop of the search: names are looked up once, and only operations without
        # effect are stepped here.
        count, following, steps = len(self.operations), self._next, self._steps
        open_ended, pure = self._indeterminate, self._pure
        entry = following[self._head]
        found: list[int] = []
        while entry < count:
            if pure[entry] and not open_ended[entry]:
                after = steps[entry].get(state)
                if after is None:
                    after = self._step(entry, state)
                if after == state:
                    return [entry]
            if not open_ended[entry] or self._is_first(entry, indeterminate):
                found.append(entry)
            entry = following[entry]
        if entry == self._end:
            return None
        if self._rank[entry] > self.furthest:
            self._note_furthest(entry, state)
        if len(found) > 1:
            found.sort(key=self._return_rank.__getitem__, reverse=True)
        return found

    def _is_first(self, entry: int, indeterminate: int) -> bool:
        """Return whether no unplaced indeterminate operation before it would do the same."""
        alike = self._alike_before[entry]
        return alike < 0 or bool(indeterminate >> self._bit[alike] & 1)

    def _note_furthest(self, entry: int, state: int) -> None:
        self.furthest = self._rank[entry]
        self.blocked = entry - len(self.operations)
        self.blocked_state = state

    def _first_new(
        self, alternatives: list[int], low: int, bits: int, indeterminate: int, state: int
    ) -> tuple[int, tuple[int, int, int, int]] | None:
        """Take alternatives until one is legal and leads to a configuration not seen before."""
        while alternatives:
            placed = alternatives.pop()
            after = self._steps[placed].get(state)
            if after is None:
                after = self._step(placed, state)
            if after < 0:
                continue
            key_low, key_bits, key_indeterminate = low, bits, indeterminate
            if self._indeterminate[placed]:
                if after == state:
                    continue
                key_indeterminate |= 1 << self._bit[placed]
            else:
                key_bits |= 1 << (self._bit[placed] - low)
                ones = (~key_bits & (key_bits + 1)).bit_length() - 1
                key_bits >>= ones
                key_low += ones
            key = (key_low, key_bits, key_indeterminate, after)
            if key not in self._memo:
                self._remember(key)
                return placed, key
        return None

    def _remember(self, key: tuple[int, int, int, int]) -> None:
        self._memo.add(key)
        self.explored += 1
        self._used_bytes += _MEMO_ENTRY_BYTES + (key[1].bit_length() + key[2].bit_length()) // 8
        if self.explored_max is not None and self.explored > self.explored_max:
            raise BudgetExceededError(f"limit of {self.explored_max} configurations")
        if self.explored % _SPEND_EVERY == 0:
            self.budget.spend(self._used_bytes)

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
