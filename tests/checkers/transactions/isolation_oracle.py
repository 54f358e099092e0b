"""Which isolation levels a small history of transactions keeps, by trying everything.

Shares nothing with `checkers.transactions`: no dependencies are inferred here. A level is kept where some
choice keeps it: which crashed transactions committed; of which transaction a read is, where values
repeat; in which order they ran (serializable), took snapshots and committed (snapshot isolation),
or wrote each key (the others; Adya 1999, and Biswas and Enea 2019 for read atomic).
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations, product
from typing import Any

from checkers.history import EventType, Operation

Pairs = frozenset[tuple[int, int]]
_FORMS = ("", "strong-session-", "strong-")


@dataclass(frozen=True)
class _Txn:
    number: int
    is_ok: bool
    steps: tuple[tuple[str, Hashable, Any], ...]

    @property
    def wrote(self) -> dict[Hashable, list[Any]]:
        found: dict[Hashable, list[Any]] = {}
        for f, key, value in self.steps:
            if f != "r":
                found.setdefault(key, []).append(value)
        return found


def kept(operations: Sequence[Operation], *, is_list: bool) -> tuple[set[str], set[str]]:
    """Return the levels that are kept, and those that theories decide differently."""
    live = [o for o in operations if o.type is not EventType.FAIL]
    txns = [_Txn(n, o.type is EventType.OK, _steps(o)) for n, o in enumerate(live)]
    session = frozenset(
        (a, b)
        for a, b in permutations(range(len(live)), 2)
        if live[a].process == live[b].process and live[a].index < live[b].index
    )
    real = session | {
        (a, b)
        for a, b in permutations(range(len(live)), 2)
        if live[a].complete_ns < live[b].invoke_ns
    }
    orders = (frozenset[tuple[int, int]](), session, real)
    found: set[str] = set()
    for form, order in zip(("", "strong-session-", "strict-"), orders, strict=True):
        if _serial(txns, order, is_list=is_list):
            found.add(f"{form.removesuffix('strict-')}serializable")
            if form == "strict-":
                found.add("strict-serializable")
    for form, order in zip(_FORMS, orders, strict=True):
        if "strict-serializable" in found or _snapshots(txns, order, is_list=is_list):
            found.add(f"{form}snapshot-isolation")
    open_: set[str] = set()
    for chosen in _subsets(txns):
        for graph in _graphs(chosen, is_list=is_list):
            more, undecided = graph.levels(orders)
            found |= more
            open_ |= undecided
    failed = [_Txn(-1, False, _steps(o)) for o in operations if o.type is EventType.FAIL]
    found |= _uncommitted(txns, failed, orders, is_list=is_list)
    return found, open_ - found


def _steps(operation: Operation) -> tuple[tuple[str, Hashable, Any], ...]:
    steps = operation.output if operation.type is EventType.OK else operation.input
    return tuple((f, k, tuple(v) if isinstance(v, list) else v) for f, k, v in steps)


def _subsets(txns: Sequence[_Txn]) -> Iterator[list[_Txn]]:
    crashed = [t for t in txns if not t.is_ok]
    for count in range(len(crashed) + 1):
        for some in combinations(crashed, count):
            yield [t for t in txns if t.is_ok or t in some]


def _run(txn: _Txn, store: Mapping[Hashable, Any], *, is_list: bool) -> dict[Hashable, Any] | None:
    """Return the store after a transaction; None where it read something else."""
    after = dict(store)
    for f, key, value in txn.steps:
        there: Any = after.get(key, () if is_list else None)
        if f != "r":
            after[key] = (*there, value) if is_list else value
        elif txn.is_ok and value != there and (not is_list or value or there):
            return None
    return after


# -- orders of transactions, of snapshots and commits ----------------------------------------------


def _serial(txns: Sequence[_Txn], order: Pairs, *, is_list: bool) -> bool:
    def go(left: frozenset[int], store: Mapping[Hashable, Any]) -> bool:
        if not any(txns[n].is_ok for n in left):
            return True
        for n in left:
            if any((m, n) in order and txns[m].is_ok for m in left):
                continue
            after = _run(txns[n], store, is_list=is_list)
            if after is not None and go(left - {n}, after):
                return True
        return False

    return go(frozenset(range(len(txns))), {})


def _snapshots(txns: Sequence[_Txn], order: Pairs, *, is_list: bool) -> bool:
    """Try every order of snapshots and commits; the first of two concurrent writers commits."""

    def go(
        new: frozenset[int], begun: Mapping[int, frozenset[Hashable]], store: Mapping[Hashable, Any]
    ) -> bool:
        """`begun`: transaction -> keys that were written since its snapshot."""
        if not any(txns[n].is_ok for n in {*new, *begun}):
            return True
        for n, since in begun.items():
            keys = set(txns[n].wrote)
            if keys & since:
                continue
            after = _run(_Txn(n, False, txns[n].steps), store, is_list=is_list)
            others = {m: seen | keys for m, seen in begun.items() if m != n}
            if after is not None and go(new, others, after):
                return True
        for n in new:
            if any((m, n) in order and txns[m].is_ok for m in (*new, *begun)):
                continue
            if _run(txns[n], store, is_list=is_list) is not None and go(
                new - {n}, {**begun, n: frozenset()}, store
            ):
                return True
        return False

    return go(frozenset(range(len(txns))), {}, {})


# -- orders of versions ----------------------------------------------------------------------------


@dataclass
class _Graph:
    """Dependencies of committed transactions for one order of versions; numbers of transactions."""

    ww: set[tuple[int, int]]
    wr: set[tuple[int, int]]
    rw: set[tuple[int, int]]
    is_atomic: bool
    is_atomic_as_data: bool

    def levels(self, orders: Sequence[Pairs]) -> tuple[set[str], set[str]]:
        """Return what is kept, and what depends on the theory."""
        found: set[str] = set()
        shown = self.ww | self.wr
        for form, order in zip(_FORMS, orders, strict=True):
            if not _has_cycle(shown | order):
                found.add(f"{form}read-committed")
        if "read-committed" not in found:
            return set(), set()
        if self.is_atomic and self.is_atomic_as_data:
            found.add("read-atomic")
        if all(not _reaches(shown, b, a) for a, b in self.rw):
            found.add("consistent-view")
        if not _has_cycle(shown | self.rw):
            found.add("repeatable-read")
        return found, {"read-atomic"} if self.is_atomic else set()


def _reaches(edges: Iterable[tuple[int, int]], source: int, target: int) -> bool:
    edges = list(edges)
    seen, todo = {source}, [source]
    while todo:
        node = todo.pop()
        if node == target:
            return True
        for a, b in edges:
            if a == node and b not in seen:
                seen.add(b)
                todo.append(b)
    return False


def _has_cycle(edges: Iterable[tuple[int, int]]) -> bool:
    left = set(edges)
    while True:
        targets = {b for _, b in left}
        rest = {(a, b) for a, b in left if a in targets}
        if len(rest) == len(left):
            return bool(left)
        left = rest


def _graphs(txns: Sequence[_Txn], *, is_list: bool) -> Iterator[_Graph]:
    writers: dict[Hashable, list[_Txn]] = {}
    for t in txns:
        for key in t.wrote:
            writers.setdefault(key, []).append(t)
    for orders in product(*(permutations(w) for w in writers.values())):
        order = dict(zip(writers, orders, strict=True))
        if is_list:
            graph = _graph_of_lists(txns, order)
            if graph is not None:
                yield graph
        else:
            yield from _graphs_of_registers(txns, order)


_Reads = dict[int, list[tuple[Hashable, int]]]
"""Transaction -> key and place in the order of its writers; -1: what was there first."""
_Order = Mapping[Hashable, Sequence[_Txn]]


def _graph(order: _Order, reads: _Reads, *, as_data: bool) -> _Graph:
    ww, wr, rw = set(), set(), set()
    for ordered in order.values():
        ww |= {(a.number, b.number) for a, b in combinations(ordered, 2)}
    is_atomic = True
    for reader, each in reads.items():
        own_writers = [order[key][place].number for key, place in each if place >= 0]
        for key, place in each:
            ordered = order.get(key, ())
            if place >= 0 and ordered[place].number != reader:
                wr.add((ordered[place].number, reader))
            rw |= {(reader, t.number) for t in ordered[place + 1 :] if t.number != reader}
            later = {t.number for t in ordered[place + 1 :]} - {reader}
            is_atomic &= not later & set(own_writers)
    return _Graph(ww, wr, rw, is_atomic, as_data)


def _graph_of_lists(txns: Sequence[_Txn], order: _Order) -> _Graph | None:
    reads: _Reads = {}
    seen: list[tuple[int, Hashable, set[Any]]] = []
    is_internal = True
    for t in txns:
        own: dict[Hashable, tuple[Any, ...]] = {}
        found: dict[Hashable, tuple[Any, ...]] = {}
        for f, key, value in t.steps if t.is_ok else ():
            if f != "r":
                own[key] = (*own.get(key, ()), value)
                continue
            ordered = order.get(key, ())
            states = [()]
            for w in ordered:
                states.append((*states[-1], *w.wrote[key]))
            there = value or ()
            if key in own:
                if there != states[list(ordered).index(t)] + own[key]:
                    return None
            else:
                if there not in states:
                    return None
                place = states.index(there) - 1
                if t in ordered[: place + 1]:
                    return None
                reads.setdefault(t.number, []).append((key, place))
            before = there[: len(there) - len(own.get(key, ()))]
            is_internal &= found.setdefault(key, before) == before  # INT, of lists as data
            seen.append((t.number, key, set(there)))
    as_data = True
    for reader in {n for n, *_ in seen}:
        for w in txns:
            shows = any(
                n == reader and set(w.wrote.get(k, ())) & elements for n, k, elements in seen
            )
            if w.number != reader and shows:
                as_data &= all(
                    set(w.wrote.get(k, ())) <= elements for n, k, elements in seen if n == reader
                )
    graph = _graph(order, reads, as_data=as_data)
    graph.is_atomic &= is_internal
    return graph


def _graphs_of_registers(txns: Sequence[_Txn], order: _Order) -> Iterator[_Graph]:
    reads: list[tuple[int, Hashable, list[int]]] = []
    for t in txns:
        own: dict[Hashable, Any] = {}
        for f, key, value in t.steps if t.is_ok else ():
            if f != "r":
                own[key] = value
            elif key in own:
                if own[key] != value:
                    return
            else:
                places = [
                    place
                    for place, w in enumerate(order.get(key, ()))
                    if w is not t and w.wrote[key][-1] == value
                ]
                reads.append((t.number, key, [*places, *([-1] if value is None else [])]))
    for chosen in product(*(places for *_, places in reads)):
        by_reader: _Reads = {}
        for (reader, key, _), place in zip(reads, chosen, strict=True):
            by_reader.setdefault(reader, []).append((key, place))
        yield _graph(order, by_reader, as_data=True)


# -- read uncommitted ------------------------------------------------------------------------------


def _uncommitted(
    txns: Sequence[_Txn], failed: Sequence[_Txn], orders: Sequence[Pairs], *, is_list: bool
) -> set[str]:
    """Only writes of what committed for sure have an order; reads may be of anything, at any time.

    But for what no system does: a read behind own writes shows them, elements come as they were
    appended, once each.
    """
    written: dict[Hashable, dict[int, list[Any]]] = {}
    for n, t in enumerate((*txns, *failed)):
        for key, values in t.wrote.items():
            written.setdefault(key, {})[n] = values
    reads: list[tuple[Hashable, tuple[Any, ...]]] = []
    for t in txns:
        own: dict[Hashable, tuple[Any, ...]] = {}
        for f, key, value in t.steps if t.is_ok else ():
            mine = own.get(key, ())
            if f != "r":
                own[key] = (*mine, value)
            elif is_list:
                there = value or ()
                if there[len(there) - len(mine) :] != mine and mine:
                    return set()
                if not _possible(there, written.get(key, {})):
                    return set()
                reads.append((key, there))
            else:
                all_ = [*chain.from_iterable(written.get(key, {}).values()), None]
                if value not in all_ or (mine and value != mine[-1]):
                    return set()
    if not is_list:
        return {f"{form}read-uncommitted" for form in _FORMS}
    found: set[str] = set()
    sure = [t for t in txns if t.is_ok]
    keys = {key: [t for t in sure if key in t.wrote] for key in written}
    for chosen in product(*(permutations(w) for w in keys.values())):
        order = dict(zip(keys, chosen, strict=True))
        lists = {k: [*chain.from_iterable(t.wrote[k] for t in w)] for k, w in order.items()}
        if all(_prefix([e for e in v if e in lists[k]], lists[k]) for k, v in reads if k in lists):
            ww = {(a.number, b.number) for w in order.values() for a, b in combinations(w, 2)}
            for form, pairs in zip(_FORMS, orders, strict=True):
                if not _has_cycle(
                    ww | {(a, b) for a, b in pairs if txns[a].is_ok and txns[b].is_ok}
                ):
                    found.add(f"{form}read-uncommitted")
    return found


def _possible(value: Sequence[Any], written: Mapping[int, Sequence[Any]]) -> bool:
    if len(set(value)) < len(value) or set(value) - {e for w in written.values() for e in w}:
        return False
    return all(_prefix([e for e in value if e in w], w) for w in written.values())


def _prefix(some: Sequence[Any], whole: Sequence[Any]) -> bool:
    return list(some) == list(whole[: len(some)])
