"""Whether a window has no order at all: the second half of the verifier.

It goes through the window in time with every configuration that can be, as Lowe (2017) does just
in time. A configuration is what an order of some operations leaves: (state, owed, spent). Of the
open operations an *owed* one has to be placed before it returns, a *spent* one was placed, and any
other may do either: be placed once more, or let go. Nothing is placed before the return of an
operation makes it necessary: all that was invoked by then can be placed then in the same order.

- What is legal and changes nothing is no longer owed: it could be placed here. Placed later it may
  still be, so it is not spent.
- When an operation is placed that makes the state whatever it was (`Model.forgets`), what is legal
  in any state is no longer owed: it could be placed directly before, unseen.
- An indeterminate operation is never owed. Of those that would do the same the first is placed.
- Of two configurations of one state that which owes and has spent a part of what the other has can
  follow wherever the other goes, and what was said holds of both again; so the other is dropped.
- States that no operation of the window distinguishes are one (`Model.indistinct`).

The second rule is what decides histories in which most of what is written is never read: the other
operations open at a put are as good as done and stay of use, and nothing has to be said of their
order. Without it, and without the last one, a dozen open appends have more orders than can be
walked, and a FAIL would have no proof.

Exponential in the operations that are open together and seen (the problem is NP-complete), hence
the bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence

from porcupine_py.models.base import Model, State
from porcupine_py.operations import EventType, Operation

CONFIGURATIONS_MAX = 300_000
"""Configurations visited, beyond which a window is too large to be believed."""


class RefusedError(Exception):
    """The certificate proves nothing; the message says why."""


DeadEnd = tuple[Operation, tuple[State, ...]]
# The operation that no order reaches, and every state that may be there just before it returns; of
# states that no operation of the window distinguishes it is one.


def dead_end(
    operations: Sequence[Operation], model: Model, states: Sequence[State]
) -> DeadEnd | None:
    """Return where every order that begins in one of the states ends; None: one does not.

    Raises RefusedError when there is too much to try.
    """
    return _Walk(operations, model).dead_end(states)


_Configuration = tuple[State, int, int]
"""State, what is owed, what was spent."""


class _Walk:
    """All ways through a window; sets are the bits of integers, one for each operation."""

    def __init__(self, operations: Sequence[Operation], model: Model) -> None:
        self._operations = operations
        self._model = model
        self._name = model.indistinct(operations)
        self._total = 0
        for i, operation in enumerate(operations):
            self._total |= model.always_legal(operation) << i
        self._visited = 0
        self._steps: dict[tuple[int, State], tuple[bool, State]] = {}
        self._alike: dict[int, int] = {}
        """Of each indeterminate operation: those before it that would do the same."""
        before: dict[Hashable, int] = {}
        for i, operation in enumerate(operations):
            if operation.type is EventType.INFO:
                effect = model.same_effect(operation)
                self._alike[i] = before.get(effect, 0)
                before[effect] = self._alike[i] | 1 << i

    def dead_end(self, states: Sequence[State]) -> DeadEnd | None:
        """Return the first return that no configuration outlives."""
        events = [(o.invoke_ns, 0, o.index, i) for i, o in enumerate(self._operations)]
        events += [
            (o.complete_ns, 1, o.index, i)
            for i, o in enumerate(self._operations)
            if o.type is not EventType.INFO
        ]
        now = [(self._name(state), 0, 0) for state in states]
        begun: list[int] = []
        called = 0
        for _, ends, _, i in sorted(events):
            if not ends:
                begun.append(i)
                called |= 1 << i if i not in self._alike else 0
                continue
            now, before = self._return(now, begun, called, i)
            begun.remove(i)
            called = 0
            if not now:
                return self._operations[i], before
        return None

    def _return(
        self, now: list[_Configuration], begun: Sequence[int], called: int, i: int
    ) -> tuple[list[_Configuration], tuple[State, ...]]:
        """Return the configurations after the return of operation i, and the states before it.

        `called` are new since the return before.
        """
        bit = 1 << i
        seen, left = _Best(), _Best()
        todo: deque[tuple[_Configuration, bool]] = deque()
        for state, owed, spent in now:
            root = (state, self._settle(state, owed | called, begun), spent)
            if seen.add(root):
                todo.append((root, True))
        while todo:
            (state, owed, spent), was_owed = todo.popleft()
            if spent & bit or (was_owed and not owed & bit):
                left.add((state, owed & ~bit, spent & ~bit))
            if spent & bit:
                continue  # the rest can wait for a later return
            for following in self._place(state, owed, spent, begun):
                if seen.add(following):
                    todo.append((following, owed & bit != 0))
        self._visited += len(seen)
        return list(left), tuple(dict.fromkeys(state for state, _, _ in seen))

    def _place(
        self, state: State, owed: int, spent: int, begun: Sequence[int]
    ) -> Iterator[_Configuration]:
        """Yield what placing each open operation leads to."""
        for i in begun:
            bit = 1 << i
            if spent & bit or self._alike.get(i, 0) & ~spent:
                continue
            legal, after = self._step(i, state)
            if not legal or after == state:
                continue
            self._visited += 1
            if self._visited > CONFIGURATIONS_MAX:
                raise RefusedError("the window is too large to be verified")
            still = owed & ~bit
            if self._model.forgets(self._operations[i]):
                still &= ~self._total
            yield after, self._settle(after, still, begun), spent | bit

    def _settle(self, state: State, owed: int, begun: Sequence[int]) -> int:
        """Take from what is owed what could be placed here without a trace."""
        for i in begun:
            if owed >> i & 1 and self._step(i, state) == (True, state):
                owed &= ~(1 << i)
        return owed

    def _step(self, i: int, state: State) -> tuple[bool, State]:
        known = self._steps.get((i, state))
        if known is None:
            legal, after = self._model.step(state, self._operations[i])
            known = self._steps[i, state] = legal, self._name(after) if legal else after
        return known


class _Best:
    """Configurations of which none owes and has spent a part of what another one has."""

    def __init__(self) -> None:
        self._of_state: dict[State, list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of_state.values()))

    def __iter__(self) -> Iterator[_Configuration]:
        return (
            (state, owed, spent) for state, sets in self._of_state.items() for owed, spent in sets
        )

    def add(self, configuration: _Configuration) -> bool:
        """Add it, unless one that is there is as good; returns whether it was added."""
        state, owed, spent = configuration
        sets = self._of_state.setdefault(state, [])
        if any(not (o & ~owed or s & ~spent) for o, s in sets):
            return False
        sets[:] = [(o, s) for o, s in sets if owed & ~o or spent & ~s]
        sets.append((owed, spent))
        return True
