"""The frontier of `linearizability.kernels.frontier` with objects and sets: its readable reference."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from checkers.history import EventType, Operation
from checkers.verdict import Status
from porcupine_py.models import Model
from porcupine_py.models.registers import cas_pair
from porcupine_py.search.outcome import Outcome
from porcupine_py.search.wgl import prefix_window
from porcupine_py.search.wording import no_order


class _Placed(NamedTuple):
    """A list of placements, the last one first: shared by all configurations that rest on it."""

    operation: int
    event: int
    before: _Placed | None


@dataclass(frozen=True, slots=True)
class _Configuration:
    state: Hashable
    owed: frozenset[int] = frozenset()
    spent: frozenset[int] = frozenset()
    """Open operations only."""
    used: tuple[int, ...] = ()
    """Of each class: how many indeterminate operations were spent."""
    placed: _Placed | None = field(default=None, compare=False)

    def dominates(self, other: _Configuration) -> bool:
        """Return whether it can do whatever the other can."""
        return (
            self.state == other.state
            and self.owed <= other.owed
            and self.spent <= other.spent
            and all(mine <= its for mine, its in zip(self.used, other.used, strict=True))
        )

    def cost(self) -> int:
        return len(self.owed) + len(self.spent) + sum(self.used)


def search(
    operations: Sequence[Operation], model: Model, *, width_max: int | None = None
) -> Outcome:
    """Judge the operations of one key of a register, with compare-and-set or without.

    UNKNOWN when nothing was left after some configurations had been thrown away.
    """
    return _Frontier(operations, model, width_max).judge()


class _Frontier:
    def __init__(
        self, operations: Sequence[Operation], model: Model, width_max: int | None
    ) -> None:
        self.given = operations
        self.model = model
        self.width_max = width_max
        self.explored = 0
        self.truncated = False
        self.operations = [_plain(o) for o in model.useful(operations)]
        self.blocked: int | None = None
        self._returns = [
            None if o.type is EventType.INFO else o.complete_ns for o in self.operations
        ]
        self._open: list[int] = []
        self._classes: dict[Hashable, list[int]] = {}
        """Class of indeterminate operations -> those called so far."""
        self._names = [model.same_effect(o) for o in self.operations]
        infos = (self._names[i] for i, end in enumerate(self._returns) if end is None)
        self._column = {name: i for i, name in enumerate(dict.fromkeys(infos))}
        self._events = sorted(
            [(o.invoke_ns, 0, i) for i, o in enumerate(self.operations)]
            + [(end, 1, i) for i, end in enumerate(self._returns) if end is not None]
        )

    def judge(self) -> Outcome:
        frontier = [_Configuration(self.model.init(), used=(0,) * len(self._column))]
        for event, (_, ends, i) in enumerate(self._events):
            if not ends:
                frontier = [self._called(c, i) for c in frontier]
                self._note_open(i)
                continue
            self.blocked = i
            frontier = self._narrowed(self._returned(frontier, i, event))
            self._open.remove(i)
            if not frontier:
                if self.truncated:
                    explanation = f"width limit of {self.width_max} configurations"
                    return self.outcome(Status.UNKNOWN, explanation)
                return self.outcome(Status.FAIL, self._explain(i))
        order = self._woven(frontier[0].placed)
        placed = f"{len(order)} of {len(self.given)} operations placed in order"
        indexes = tuple(self.operations[i].index for i in order)
        return replace(self.outcome(Status.PASS, placed), linearization=indexes)

    def _note_open(self, i: int) -> None:
        if self._returns[i] is None:
            self._classes.setdefault(self._names[i], []).append(i)
        else:
            self._open.append(i)

    def _called(self, c: _Configuration, i: int) -> _Configuration:
        if self._returns[i] is None or self._met(i, c.state):
            return c
        return replace(c, owed=c.owed | {i})

    def _met(self, i: int, state: Hashable) -> bool:
        """Return whether the operation may stand here and change nothing."""
        return self.model.step(state, self.operations[i]) == (True, state)

    def _returned(self, frontier: list[_Configuration], i: int, event: int) -> list[_Configuration]:
        """Expand until operation i is spent, or need not be."""
        resource = self.operations[i].f == "write"
        done: list[_Configuration] = []
        waiting: list[_Configuration] = []
        for c in frontier:
            self._sort_in(c, i, done, waiting, resource=resource)
        at = 0
        while at < len(waiting):
            c = waiting[at]
            at += 1
            self.explored += 1
            for following in self._following(c, event):
                self._sort_in(following, i, done, waiting, resource=resource)
        return done

    def _sort_in(
        self,
        c: _Configuration,
        i: int,
        done: list[_Configuration],
        waiting: list[_Configuration],
        *,
        resource: bool,
    ) -> None:
        if i in c.owed or (resource and i not in c.spent):
            if not any(other.dominates(c) for other in waiting):
                waiting.append(c)
        if i not in c.owed:
            gone = replace(c, spent=c.spent - {i})
            if not any(other.dominates(gone) for other in done):
                done[:] = [other for other in done if not gone.dominates(other)]
                done.append(gone)

    def _following(self, c: _Configuration, event: int) -> Iterable[_Configuration]:
        """Place one operation more, in every way that differs."""
        tried: set[Hashable] = set()
        for i in sorted(self._open, key=lambda i: (self._returns[i], i)):
            name = self._names[i]
            if i in c.spent or name in tried or not self.model.has_effect(self.operations[i]):
                continue
            tried.add(name)
            legal, state = self.model.step(c.state, self.operations[i])
            if legal:
                spent = replace(c, spent=c.spent | {i}, owed=c.owed - {i})
                yield self._at(spent, state, i, event)
        for name, called in self._classes.items():
            column = self._column[name]
            used = c.used[column]
            if name in tried or used == len(called):
                continue
            legal, state = self.model.step(c.state, self.operations[called[used]])
            if legal:
                more = (*c.used[:column], used + 1, *c.used[column + 1 :])
                yield self._at(replace(c, used=more), state, called[used], event)

    def _at(self, c: _Configuration, state: Hashable, i: int, event: int) -> _Configuration:
        """Reach a state by placing operation i, and meet there what it meets."""
        hides = self.operations[i].f == "write"
        owed = (
            o
            for o in c.owed
            if not self._met(o, state) and not (hides and self.operations[o].f == "write")
        )
        return replace(c, state=state, owed=frozenset(owed), placed=_Placed(i, event, c.placed))

    def _narrowed(self, frontier: list[_Configuration]) -> list[_Configuration]:
        if self.width_max is None or len(frontier) <= self.width_max:
            return frontier
        self.truncated = True
        return sorted(frontier, key=_Configuration.cost)[: self.width_max]

    def _woven(self, last: _Placed | None) -> list[int]:
        """Return the whole order: the placements, and between them what they met on the way.

        Gap g lies behind placement g; it is open from the event of that one to that of the next.
        """
        placements: list[_Placed] = []
        while last is not None:
            placements.append(last)
            last = last.before
        placements.reverse()
        states = [self.model.init()]
        for p in placements:
            states.append(self.model.step(states[-1], self.operations[p.operation])[1])
        explicit = {p.operation for p in placements}
        met: list[list[int]] = [[] for _ in states]
        hidden: list[list[int]] = [[] for _ in states]
        begins = {i: event for event, (_, ends, i) in enumerate(self._events) if not ends}
        for event, (_, ends, i) in enumerate(self._events):
            if ends and i not in explicit:
                gap, hides = self._gap(i, (begins[i], event), states, placements)
                (hidden if hides else met)[gap].append(i)
        order: list[int] = []
        for gap in range(len(states)):
            order += sorted(met[gap]) + sorted(hidden[gap])
            order += [placements[gap].operation] if gap < len(placements) else []
        return order

    def _gap(
        self, i: int, span: tuple[int, int], states: list[Hashable], placements: list[_Placed]
    ) -> tuple[int, bool]:
        """Return the first gap in which an operation is met, or hidden by the write at its end."""
        called, returned = span
        for gap, state in enumerate(states):
            following = placements[gap] if gap < len(placements) else None
            if following is not None and following.event < called:
                continue
            if self._met(i, state):
                return gap, False
            assert following is not None, "a frontier lets go only what was met"
            writes = self.operations[i].f == self.operations[following.operation].f == "write"
            if writes and following.event <= returned:
                return gap, True
        raise AssertionError("no gap was open")

    def _explain(self, i: int) -> str:
        return no_order(self.operations, self.model, self.operations[i])

    def outcome(self, status: Status, explanation: str) -> Outcome:
        """Translate positions to operation indexes."""
        horizon_ns = None if self.blocked is None else self.operations[self.blocked].complete_ns
        window = None
        if status is Status.FAIL:
            assert horizon_ns is not None
            window = prefix_window(self.given, self.model, horizon_ns)
        return Outcome(
            status,
            explanation,
            window=window,
            proved_ns=None if status is Status.PASS else horizon_ns,
            explored=self.explored,
        )


def _plain(operation: Operation) -> Operation:
    """A successful cas from a value to itself is a read of it."""
    if operation.f == "cas" and operation.type is EventType.OK:
        expected, new = cas_pair(operation)
        if expected == new:
            return replace(operation, f="read", output=operation.input[0])
    return operation
