"""Whether some order of all transactions, or of all snapshots, explains what reads returned.

Of registers the order of versions is known in part only, so dependencies may have no cycle although
nothing explains the history. Two things come after them, for serializability and its session and
strict forms; both say what no weaker level promises.

A first, short search for an order, as below, comes before both: most histories are right.

**Saturation** (Biswas and Enea, OOPSLA 2019; polynomial). In a serial order, if r read from w what
w wrote to a key, no other writer v of that key stands between them. So where v comes before r, it
comes before w; and where w comes before v, r comes before v. Each such edge makes new ones, until
none is new. A cycle then is a proof.

**Search**. Serializability of registers is NP-complete (Papadimitriou 1979), so the rest is a
search: place transactions one by one, each after those that must come before it, where all that it
reads is there, and where it does not overwrite what somebody else has still to read and nobody will
write again. One that only reads is placed as soon as it can be: whatever follows can follow then
just as well. A state (what is placed, what is in each key) from which there was no way is not tried
twice. Bounded by steps. The order that it finds is replayed by the checker, and is the proof of a
PASS; that it went through all is the proof of a FAIL.

Values that were written more than once need nothing else: a read may be of any of them.

**Snapshot isolation** is this question of other transactions (after Biswas and Enea): each is taken
apart into its snapshot, which reads, and its commit, which writes, behind it. No two transactions
of which the intervals meet write one key: so a snapshot writes the transaction's name to a lock of
each key that its transaction writes, and its commit reads its own name there. What only reads, or
only writes, remains one: if only writes are in it, its snapshot may as well be taken at its commit.
A dependency (ww, wr, and the orders of processes and of real time) leads from a commit to a
snapshot, an anti-dependency from a snapshot to a commit. Lists are registers here: an append writes
a version, which is known by who appended last.
"""

from __future__ import annotations

import enum
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from checkers.history import EventType
from checkers.transactions.operations import Edge, Key, Transaction
from checkers.transactions.rw_register import INITIAL
from checkers.transactions.search import in_components
from porcupine_py.search.outcome import Cancelled
from porcupine_py.values import show

FIRST_STEPS = 20
"""Steps of the first search for each transaction: most histories are right, and it finds that."""
SATURATED_MAX = 20_000
"""Most transactions whose precedence is kept as bits: twice as many bits for each as there are."""
WORK_MAX = 20_000_000
"""Most that saturation may do: edges gone through, each as heavy as its bits are long."""
STEPS_MAX = 200_000
"""Most times that a search asks whether a transaction can be placed."""
_NEAR = 32
"""How many of the transactions that could be next are looked through for one that only reads."""


class Answer(enum.Enum):
    """What came out."""

    ORDER = enum.auto()
    """There is an order."""
    NONE = enum.auto()
    """There is none."""
    OPEN = enum.auto()
    """A bound was met."""


@dataclass(frozen=True, slots=True)
class Serial:
    """An answer, and what proves it."""

    answer: Answer
    order: tuple[int, ...] = ()
    """Indexes of transactions, one after another; of ORDER."""
    cycle: tuple[Edge, ...] = ()
    """Of NONE, where a cycle says so; else every order was tried."""


@dataclass(frozen=True, slots=True)
class _Task:
    """The transactions by number, in order of completion."""

    indexes: Sequence[int]
    reads: Sequence[Mapping[Key, Hashable]]
    writes: Sequence[Mapping[Key, Hashable]]
    must: int
    """How many have to be placed: the first ones."""


def explain(
    transactions: Iterable[Transaction],
    optional: Iterable[Transaction],
    edges: Sequence[Edge],
    cancelled: Cancelled,
    *,
    is_short: bool = False,
) -> Serial:
    """Look for an order of transactions that keeps the edges; `optional` ones may be left out.

    `is_short`: by the first search alone.
    """
    task = _task(_whole(transactions), _whole(optional))
    return _explain(task, edges, cancelled, is_short=is_short)


def explain_snapshots(
    transactions: Iterable[Transaction],
    optional: Iterable[Transaction],
    edges: Iterable[Edge],
    cancelled: Cancelled,
    *,
    is_short: bool = False,
) -> Serial:
    """Look for an order of snapshots and commits; of the answer there are no indexes."""
    parts = _apart(transactions), _apart(optional)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    inner: list[Edge] = []
    for part in (*parts[0], *parts[1]):
        index = part.index // 2
        if first.setdefault(index, part.index) != part.index:
            inner.append(Edge(first[index], part.index, "commit", "before its commit"))
        last[index] = part.index
    ends = [
        replace(e, source=first[e.source], target=last[e.target])
        if e.kind == "rw"
        else replace(e, source=last[e.source], target=first[e.target])
        for e in edges
    ]
    every = [*inner, *ends]
    return Serial(_explain(_task(*parts), every, cancelled, is_short=is_short).answer)


def _explain(task: _Task, edges: Sequence[Edge], cancelled: Cancelled, *, is_short: bool) -> Serial:
    number = {index: i for i, index in enumerate(task.indexes)}
    first = _search(task, number, edges, FIRST_STEPS * len(number), cancelled)
    if first.answer is not Answer.OPEN or is_short or cancelled():
        return first
    saturated = _saturate(task, number, edges, cancelled)
    kinds = {edge.kind for edge in saturated}
    for cycle in in_components(saturated, tuple(kinds)):
        return Serial(Answer.NONE, cycle=tuple(cycle))
    return _search(task, number, saturated, STEPS_MAX, cancelled)


def _search(
    task: _Task,
    number: Mapping[int, int],
    edges: Sequence[Edge],
    steps_max: int,
    cancelled: Cancelled,
) -> Serial:
    """Look for an order within so many steps."""
    following: list[list[int]] = [[] for _ in task.indexes]
    for source, target in {(number[e.source], number[e.target]) for e in edges}:
        following[source].append(target)
    answer, found = _Search(task, following, steps_max, cancelled).run()
    if answer is Answer.ORDER:
        assert not _contradicts(task, number, edges, found), "a search found what is no order"
    return Serial(answer, tuple(task.indexes[i] for i in found))


@dataclass(frozen=True, slots=True)
class _Part:
    """A transaction, its snapshot or its commit."""

    index: int
    reads: Mapping[Key, Hashable]
    writes: Mapping[Key, Hashable]


def _whole(transactions: Iterable[Transaction]) -> list[_Part]:
    ordered = sorted(transactions, key=lambda t: (t.operation.complete_ns, t.index))
    return [_Part(t.index, _reads(t), _writes(t)) for t in ordered]


def _apart(transactions: Iterable[Transaction]) -> list[_Part]:
    """Return snapshots and commits: of transaction n they are 2 n and 2 n + 1."""
    parts: list[_Part] = []
    for whole in _whole(transactions):
        locks: dict[Key, Hashable] = {("lock", key): whole.index for key in whole.writes}
        reads: dict[Key, Hashable] = {("key", key): v for key, v in whole.reads.items()}
        writes: dict[Key, Hashable] = {("key", key): v for key, v in whole.writes.items()}
        if not reads or not writes:
            parts.append(_Part(2 * whole.index, reads, {**writes, **locks}))
        else:
            parts.append(_Part(2 * whole.index, reads, locks))
            parts.append(_Part(2 * whole.index + 1, locks, writes))
    return parts


def _reads(transaction: Transaction) -> Mapping[Key, Hashable]:
    if transaction.type is not EventType.OK:
        return {}
    return {step.key: step.value for step in transaction.external_reads()}


def _writes(transaction: Transaction) -> Mapping[Key, Hashable]:
    return {step.key: step.value for step in transaction.steps if step.f != "r"}


def _task(must: Sequence[_Part], optional: Sequence[_Part]) -> _Task:
    every = [*must, *optional]
    return _Task(
        [part.index for part in every],
        [part.reads for part in every],
        [part.writes for part in every],
        len(must),
    )


def _contradicts(
    task: _Task, number: Mapping[int, int], edges: Sequence[Edge], order: Sequence[int]
) -> bool:
    """Replay an order, by nothing that found it."""
    place = {t: i for i, t in enumerate(order)}
    if len(place) < len(order) or any(t not in place for t in range(task.must)):
        return True
    values: dict[Key, Hashable] = {}
    for t in order:
        if any(values.get(key, INITIAL) != value for key, value in task.reads[t].items()):
            return True
        values.update(task.writes[t])
    pairs = ((number[e.source], number[e.target]) for e in edges)
    return any(a in place and b in place and place[a] > place[b] for a, b in pairs)


# -- saturation ------------------------------------------------------------------------------------


def _saturate(
    task: _Task, number: Mapping[int, int], edges: Sequence[Edge], cancelled: Cancelled
) -> list[Edge]:
    """Return the edges with all that follow from them; or up to the first cycle."""
    wrote: dict[Key, int] = {}
    by_value: dict[tuple[Key, Hashable], list[int]] = {}
    for i, writes in enumerate(task.writes):
        for key, value in writes.items():
            by_value.setdefault((key, value), []).append(i)
            if i < task.must:
                wrote[key] = wrote.get(key, 0) | 1 << i
    seen: list[tuple[int, int, Key]] = []
    for reader, reads in enumerate(task.reads):
        for key, value in reads.items():
            writers = by_value.get((key, value), [])
            is_sure = len(writers) == 1 and writers[0] < task.must and value is not INITIAL
            if is_sure and writers[0] != reader:
                seen.append((writers[0], reader, key))
    result = list(edges)
    known = {(number[e.source], number[e.target]) for e in edges}
    count = len(task.indexes)
    work = 0
    while count <= SATURATED_MAX and not cancelled():
        work += len(known) * (1 + count // 512)
        reach = _reach(count, known) if work <= WORK_MAX else None
        new = {} if reach is None else dict(_implied_edges(task, seen, wrote, *reach))
        if not new:
            break
        known |= new.keys()
        result += new.values()
    return result


def _reach(count: int, edges: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]] | None:
    """Return as bits what comes before each, and what behind; None where there is a cycle."""
    following: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for source, target in edges:
        following[source].append(target)
        waits[target] += 1
    ready = [i for i in range(count) if not waits[i]]
    before = [0] * count
    order = []
    while ready:
        node = ready.pop()
        order.append(node)
        own = before[node] | 1 << node
        for target in following[node]:
            before[target] |= own
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    if len(order) < count:
        return None
    behind = [0] * count
    for node in reversed(order):
        for target in following[node]:
            behind[node] |= behind[target] | 1 << target
    return before, behind


def _implied_edges(
    task: _Task,
    seen: Sequence[tuple[int, int, Key]],
    wrote: Mapping[Key, int],
    before: Sequence[int],
    behind: Sequence[int],
) -> Iterator[tuple[tuple[int, int], Edge]]:
    """Yield edges that are new, by their ends.

    Of several writers that come before the reader those will do that come before no other of them;
    so bits of what comes before a writer that was taken are dropped, and likewise behind.
    """
    for writer, reader, key in seen:
        others = wrote[key] & ~(1 << writer | 1 << reader)
        rest = others & before[reader] & ~before[writer]
        while rest:
            other = rest.bit_length() - 1
            why = f"wrote {show(key)} before what the next one wrote to it was read"
            yield (other, writer), _edge(task, other, writer, "ww", why, key)
            rest &= ~(before[other] | 1 << other)
        rest = others & behind[writer] & ~behind[reader]
        while rest:
            other = (rest & -rest).bit_length() - 1
            why = f"read {show(key)} of a write that the next one came behind, and replaced"
            yield (reader, other), _edge(task, reader, other, "rw", why, key)
            rest &= ~(behind[other] | 1 << other)


def _edge(task: _Task, source: int, target: int, kind: str, why: str, key: Key) -> Edge:
    one, other = task.indexes[source], task.indexes[target]
    return Edge(one, other, kind, why, key)


# -- search ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Frame:
    """A place of the order: what stands there, and what was there before."""

    taken: int = -1
    """The transaction that stands there, or stood there last."""
    is_last: bool = False
    """Nothing else needs to be tried there."""
    old: tuple[tuple[Key, Hashable], ...] = ()
    freed: tuple[int, ...] = ()


class _Search:
    """Depth first over what is placed next, without recursion."""

    def __init__(
        self, task: _Task, following: Sequence[Sequence[int]], steps_max: int, cancelled: Cancelled
    ) -> None:
        self._task = task
        self._following = following
        self._steps_left = steps_max
        self._cancelled = cancelled
        self._waits = [0] * len(following)
        for targets in following:
            for target in targets:
                self._waits[target] += 1
        self._ready = [i for i, waits in enumerate(self._waits) if not waits]
        self._values: dict[Key, Hashable] = {}
        self._readers = Counter(pair for reads in task.reads for pair in reads.items())
        self._writers = Counter(pair for writes in task.writes for pair in writes.items())
        self._placed = 0
        self._left = task.must
        self._order: list[int] = []
        self._dead: set[tuple[int, frozenset[tuple[Key, Hashable]]]] = set()

    def run(self) -> tuple[Answer, list[int]]:
        """Return whether there is an order, and which."""
        frames = [_Frame()]
        while self._left:
            frame = frames[-1]
            if frame.taken >= 0:
                self._take_back(frame)
            if self._steps_left < 0 or self._cancelled():
                return Answer.OPEN, []
            choice = self._next(frame)
            if choice is None:
                self._dead.add(self._state())
                frames.pop()
                if not frames:
                    return Answer.NONE, []
                continue
            self._place(choice, frame)
            is_dead = bool(self._dead) and self._state() in self._dead
            frames.append(_Frame(is_last=is_dead))
        return Answer.ORDER, self._order

    def _state(self) -> tuple[int, frozenset[tuple[Key, Hashable]]]:
        return self._placed, frozenset(self._values.items())

    def _next(self, frame: _Frame) -> int | None:
        """Return what is tried next at a place: first what only reads, if some is near at hand."""
        if frame.is_last:
            return None
        if frame.taken < 0:
            for t in self._ready[:_NEAR]:
                if not self._task.writes[t] and self._is_possible(t):
                    frame.is_last = True
                    return t
        for place in range(bisect_right(self._ready, frame.taken), len(self._ready)):
            t = self._ready[place]
            if self._is_possible(t):
                frame.is_last = not self._task.writes[t]
                return t
        return None

    def _is_possible(self, t: int) -> bool:
        self._steps_left -= 1
        reads, values = self._task.reads[t], self._values
        if any(values.get(key, INITIAL) != value for key, value in reads.items()):
            return False
        for key, value in self._task.writes[t].items():
            old = values.get(key, INITIAL)
            if old == value:
                continue
            waiting = self._readers[key, old] - (reads.get(key, self) == old)
            if waiting > 0 and not self._writers[key, old]:
                return False
        return True

    def _place(self, t: int, frame: _Frame) -> None:
        writes = self._task.writes[t]
        frame.taken = t
        frame.old = tuple((key, self._values.get(key, INITIAL)) for key in writes)
        for pair in self._task.reads[t].items():
            self._readers[pair] -= 1
        for key, value in writes.items():
            self._writers[key, value] -= 1
            self._values[key] = value
        self._ready.remove(t)
        freed = []
        for target in self._following[t]:
            self._waits[target] -= 1
            if not self._waits[target]:
                freed.append(target)
                insort(self._ready, target)
        frame.freed = tuple(freed)
        self._placed |= 1 << t
        self._left -= t < self._task.must
        self._order.append(t)

    def _take_back(self, frame: _Frame) -> None:
        t = self._order.pop()
        self._left += t < self._task.must
        self._placed ^= 1 << t
        for target in self._following[t]:
            self._waits[target] += 1
        for target in frame.freed:
            self._ready.remove(target)
        insort(self._ready, t)
        for pair in self._task.reads[t].items():
            self._readers[pair] += 1
        for key, value in self._task.writes[t].items():
            self._writers[key, value] += 1
        for key, value in frame.old:
            self._values[key] = value
            if value is INITIAL:
                del self._values[key]
