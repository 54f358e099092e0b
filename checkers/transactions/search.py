"""Cycles of dependencies, each named after the weakest guarantee that it breaks.

Adya, Liskov and O'Neil (2000): G0 (writes only), G1c (writes and reads), G-single (one
anti-dependency), G2 (several); G-nonadjacent is a G2 in which no two of them follow each other. A
cycle that needs the order within a process or real time has that in its name: `G-single-realtime`.
The dependencies are a subset of the true ones, so every cycle is real; and a graph without cycles
says only that none was seen.

A crashed transaction of which something was read committed, or was aborted when it was read. So it
may be in a cycle from G1 on, which forbids both; a cycle of writes that needs it is called G1c.

For each set of edges, from the weakest guarantee up: Tarjan's components, then for every edge of
the kind that makes the anomaly the shortest way back within its component.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from checkers.history import INFINITY_NS, EventType
from checkers.transactions.graph import components, path
from checkers.transactions.operations import Edge, Transaction, name
from checkers.verdict import Anomaly, anomaly
from porcupine_py.search.outcome import Cancelled

NEXT = "the next one"
"""What an edge's explanation calls its target."""
TRIES_MAX = 2_000
"""Edges from which a still shorter cycle is sought once one was found."""
ORDERS = ((), ("process",), ("process", "realtime"))


def process_edges(transactions: Mapping[int, Transaction]) -> Iterator[Edge]:
    """Order the transactions of each process."""
    last: dict[int | str, Transaction] = {}
    for transaction in sorted(transactions.values(), key=lambda t: t.index):
        process = transaction.operation.process
        if process in last:
            why = f"came before the next one in process {process}"
            yield Edge(last[process].index, transaction.index, "process", why)
        last[process] = transaction


def realtime_edges(transactions: Mapping[int, Transaction]) -> Iterator[Edge]:
    """Order transactions by real time: to each from those completed ones that nothing else follows.

    The frontier holds completed transactions, none of which completed before another was invoked;
    so there are at most as many edges for each as there were clients.
    """
    events: list[tuple[int, int, int]] = []
    for transaction in transactions.values():
        operation = transaction.operation
        events.append((operation.invoke_ns, 0, transaction.index))
        if operation.complete_ns < INFINITY_NS:
            events.append((operation.complete_ns, 1, transaction.index))
    frontier: dict[int, int] = {}
    for _, ends, index in sorted(events):
        if not ends:
            for before in frontier:
                yield Edge(before, index, "realtime", "completed before the next one was invoked")
            continue
        invoked = transactions[index].operation.invoke_ns
        frontier = {i: done for i, done in frontier.items() if done >= invoked}
        frontier[index] = transactions[index].operation.complete_ns


def cycles(
    edges: Sequence[Edge], transactions: Mapping[int, Transaction], cancelled: Cancelled
) -> Iterator[Anomaly]:
    """Find, for each name of an anomaly, a shortest cycle in every component that has one."""
    seen: set[tuple[str, frozenset[int]]] = set()
    crashed = {i for i, t in transactions.items() if t.type is EventType.INFO}
    sure = [e for e in edges if e.source not in crashed and e.target not in crashed]
    for order in ORDERS:
        for kinds, some, starts in (
            (("ww",), sure, ("ww",)),
            (("ww", "wr"), edges, ("wr", "ww") if crashed else ("wr",)),
            (("ww", "wr", "rw"), edges, ("rw",)),
        ):
            if cancelled():
                return
            for cycle in in_components([e for e in some if e.kind in (*kinds, *order)], starts):
                kind = _name(cycle)
                if kind.startswith("G0") and any(edge.source in crashed for edge in cycle):
                    kind = kind.replace("G0", "G1c")
                place = (kind, frozenset(edge.source for edge in cycle))
                if place not in seen:
                    seen.add(place)
                    yield cycle_anomaly(kind, cycle, transactions)


def find_fractured_reads(
    edges: Sequence[Edge], atomic: Sequence[Edge], transactions: Mapping[int, Transaction]
) -> Iterator[Anomaly]:
    """Find cycles that need what holds only where reads see transactions whole."""
    shown = [e for e in edges if e.kind in ("ww", "wr")]
    for cycle in in_components([*shown, *atomic], ("atomic",)) if atomic else ():
        yield cycle_anomaly("fractured-read", cycle, transactions)


def in_components(edges: Sequence[Edge], wanted: Sequence[str]) -> Iterator[list[Edge]]:
    """Yield a shortest cycle with an edge of a wanted kind, of each component that has one."""
    graph: dict[int, list[int]] = defaultdict(list)
    for edge in edges:
        graph[edge.source].append(edge.target)
    for group in components(dict(graph)):
        if len(group) < 2:
            continue
        inside = set(group)
        own = [e for e in edges if e.source in inside and e.target in inside]
        following: dict[int, list[Edge]] = defaultdict(list)
        for edge in own:
            following[edge.source].append(edge)
        starts = [edge for edge in own if edge.kind in wanted]
        backs = (_back_once, _back_apart, path) if "rw" in wanted else (path,)
        for back in backs:
            best = _shortest(following, starts, back)
            if best is not None:
                yield best
                break


_Back = Callable[[Mapping[int, Sequence[Edge]], int, int], list[Edge] | None]


def _back_once(
    following: Mapping[int, Sequence[Edge]], source: int, target: int
) -> list[Edge] | None:
    """Return a way without any anti-dependency."""
    return path(following, source, target, lambda edge: edge.kind != "rw")


def _back_apart(
    following: Mapping[int, Sequence[Edge]], source: int, target: int
) -> list[Edge] | None:
    """Return a way between the ends of an anti-dependency on which none follows another.

    Breadth first over (node, whether an anti-dependency led there). A way may meet a node twice: it
    stands for a cycle of the dependencies each with an anti-dependency behind it or not, and such
    cycles are what snapshot isolation forbids.
    """
    begin = (source, True)
    came: dict[tuple[int, bool], tuple[Edge, tuple[int, bool]] | None] = {begin: None}
    todo = deque([begin])
    while todo:
        place = todo.popleft()
        for edge in following.get(place[0], ()):
            after = edge.target, edge.kind == "rw"
            if (place[1] and after[1]) or after in came:
                continue
            came[after] = edge, place
            if after == (target, False):
                way = []
                step = came[after]
                while step is not None:
                    way.append(step[0])
                    step = came[step[1]]
                return way[::-1]
            todo.append(after)
    return None


def _shortest(
    following: Mapping[int, Sequence[Edge]], starts: Sequence[Edge], way_back: _Back
) -> list[Edge] | None:
    """Return the shortest cycle through one of the edges, with a way back of some sort."""
    best: list[Edge] | None = None
    for tried, start in enumerate(starts):
        if best is not None and (tried > TRIES_MAX or len(best) == 2):
            break
        back = way_back(following, start.target, start.source)
        if back is not None and (best is None or len(back) + 1 < len(best)):
            best = [start, *back]
    return best


def _name(cycle: Sequence[Edge]) -> str:
    kinds = [edge.kind for edge in cycle]
    if "rw" in kinds:
        adjacent = any(pair == ("rw", "rw") for pair in pairwise([*kinds, kinds[0]]))
        base = "G-single" if kinds.count("rw") == 1 else "G2" if adjacent else "G-nonadjacent"
    else:
        base = "G1c" if "wr" in kinds else "G0"
    suffix = "-realtime" if "realtime" in kinds else "-process" if "process" in kinds else ""
    return base + suffix


def cycle_anomaly(
    kind: str, cycle: Sequence[Edge], transactions: Mapping[int, Transaction]
) -> Anomaly:
    """Return a cycle as an anomaly, in English."""
    letters = {edge.source: _letter(place) for place, edge in enumerate(cycle)}
    sentences = []
    for edge in cycle:
        what = f"{letters[edge.source]} {edge.why.replace(NEXT, letters[edge.target])}"
        sentences.append(f"{what} [{edge.kind}]")
    first = letters[cycle[0].source]
    called = "; ".join(f"{letters[i]} is {name(transactions[i])}" for i in letters)
    explanation = f"{kind}: {'; '.join(sentences)}; so {first} would come before itself. {called}"
    return anomaly(
        kind,
        explanation,
        cycle=[{"from": e.source, "to": e.target, "kind": e.kind} for e in cycle],
        operations=[edge.source for edge in cycle],
    )


def _letter(place: int) -> str:
    """Call the transactions of a cycle A, B, ..."""
    return chr(ord("A") + place) if place < 26 else f"A{place}"
