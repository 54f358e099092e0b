"""A set of which the whole is read again and again (Jepsen's set-full checker).

| operation | value |
|---|---|
| `add` | the element |
| `read` | ok: all elements, as a list or set, each once |

Of every element three moments count. It is *known* once an addition of it was acknowledged or a
read that shows it ended, whichever was first. Of the reads that show it and of those that lack it,
the one that was invoked last:

| outcome | when |
|---|---|
| stable | the last read that lacks it was not invoked after the last that shows it |
| lost | the last that lacks it was invoked after it was known, and after the last that shows it |
| never read | neither: no read that began after it was known |

Where reads name the node that answered, it is said how much the last read at each node lacks
(`missing_at`): each such element is stale or lost, so that this is wrong where those are.

A stable element is *stale* if a read lacks it that was invoked after it was known: for so long,
from there to that read, it was not to be seen (`stable_latency`). A set that shows only some time
later what was written to it may be stale; so that is noted, and wrong with option `linearizable`.
Then the model `set` is asked as well, since reads may contradict each other about elements that are
not known yet.

**Wrong.** An element that is lost; that a read shows twice; that a read shows and nobody added, or
whose additions all failed, or were all invoked after the read had ended. (Jepsen looks for the
first two, and means the second: its comparison is the wrong way round. What it reports in whole
milliseconds is compared here as it is.)

Intervals are closed: a read that was invoked at the very time at which an element became known does
not have to show it, and of two reads that were invoked at one time neither is the later. O(all
elements of all reads).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.history import EventType, Operation
from checkers.jepsen.findings import Findings, UnreadableError, refuse_others
from checkers.linearizability import linearizable
from checkers.verdict import Anomaly, CheckResult, Status, anomaly
from porcupine_py.search.outcome import Cancelled, never
from porcupine_py.search.wording import duration, title
from porcupine_py.values import freeze, show

NAME = "set-full"
OPTIONS: Mapping[str, type | tuple[type, ...]] = {"linearizable": bool}
_QUANTILES = (0, 0.5, 0.95, 0.99, 1)
_WORST_SHOWN = 8
_LISTED_MAX = 100
"""How many elements of an outcome are listed; `counts` has how many there are."""


@dataclass(slots=True)
class Element:
    """What is known of an element."""

    value: Hashable
    adds: list[Operation]
    known_ns: int | None = None
    """When it was acknowledged or had been read; None: never."""
    last_present: Operation | None = None
    """Of the reads that show it the one that was invoked last."""
    last_absent: Operation | None = None
    """Of those that lack it the one that was invoked last."""

    @property
    def is_stable(self) -> bool:
        """Whether no read was invoked later than one that shows it and lacks it."""
        present, absent = self.last_present, self.last_absent
        return present is not None and (absent is None or absent.invoke_ns <= present.invoke_ns)

    @property
    def is_late(self) -> bool:
        """Whether a read that began after it was known lacks it."""
        absent = self.last_absent
        return self.known_ns is not None and absent is not None and absent.invoke_ns > self.known_ns

    @property
    def is_lost(self) -> bool:
        """Whether it was known, and is not seen any more."""
        return self.is_late and not self.is_stable

    @property
    def outcome(self) -> str:
        """In Jepsen's words."""
        return "stable" if self.is_stable else "lost" if self.is_lost else "never-read"

    @property
    def latency_ns(self) -> int:
        """How long after it was known it was stable, or was lost; 0: at once."""
        edge = self.last_absent if self.is_stable else self.last_present
        if edge is None or self.known_ns is None:
            return 0
        return max(0, edge.invoke_ns + 1 - self.known_ns)

    def window(self) -> dict[str, Any]:
        """Return what a report shows of it, times in nanoseconds since the history began."""
        present, absent = self.last_present, self.last_absent
        return {
            "element": show(self.value),
            "outcome": self.outcome,
            "known_ns": self.known_ns,
            "last_present": None if present is None else present.index,
            "last_absent": None if absent is None else absent.index,
            "latency_ns": self.latency_ns,
        }


def check_key(
    operations: Sequence[Operation], options: Mapping[str, Any], cancelled: Cancelled = never
) -> CheckResult:
    """Judge one set."""
    is_linearizable = bool(options.get("linearizable"))
    promise = "no element lost" + (" or stale" if is_linearizable else "")
    found = Findings(NAME, promise, operations)
    try:
        refuse_others(operations, "add", "read")
        reads = [(o, elements_of(o)) for o in operations if _is_read(o)]
    except UnreadableError as error:
        return found.unreadable(str(error))
    elements = timelines(operations, reads)
    found.wrong += _never_added(elements, reads)
    duplicated = _duplicates(elements, reads)
    found.wrong += duplicated
    stale = [e for e in elements.values() if e.is_stable and e.is_late]
    lost = [e for e in elements.values() if e.is_lost]
    found.wrong += map(_loss, lost)
    (found.wrong if is_linearizable else found.allowed).extend(map(_stale, stale))
    missing = _missing_at(elements, reads)
    if is_linearizable and any(lacks for _, lacks in missing.values()):
        found.wrong.insert(0, _at_nodes(missing))
    unread = [e for e in elements.values() if e.outcome == "never-read"]
    stable = [e for e in elements.values() if e.is_stable]
    found.counts = {
        "attempts": len(elements),
        "stable": len(stable),
        "lost": len(lost),
        "never_read": len(unread),
        "stale": len(stale),
        "duplicated": len(duplicated),
    }
    stale.sort(key=lambda element: -element.latency_ns)
    found.more = {
        "lost": [show(e.value) for e in lost[:_LISTED_MAX]],
        "never_read": [show(e.value) for e in unread[:_LISTED_MAX]],
        "stale": [show(e.value) for e in stale[:_LISTED_MAX]],
        "worst_stale": [element.window() for element in stale[:_WORST_SHOWN]],
        "missing_at": {node: len(lacks) for node, (_, lacks) in missing.items()},
        "stable_latencies_ms": _quantiles(stable),
        "lost_latencies_ms": _quantiles(lost),
    }
    if is_linearizable and not found.wrong:
        other = linearizable.check_key(_judgeable(operations), {"model": "set"}, cancelled)
        if other.status is Status.FAIL:
            found.wrong += map(dict, other.anomalies)
        elif other.status is Status.UNKNOWN:
            found.doubts.append(anomaly("not-decided", other.summary))
    return found.result(idle=None if stable else "no element was known to be there for good")


def _is_read(operation: Operation) -> bool:
    return operation.f == "read" and operation.type is EventType.OK


def _judgeable(operations: Sequence[Operation]) -> list[Operation]:
    """Leave out failed operations, and reads whose answer is not known."""
    return [
        o
        for o in operations
        if o.type is not EventType.FAIL and not (_is_read(o) and o.output is None)
    ]


def elements_of(read: Operation) -> list[Hashable]:
    """Return what a read shows."""
    value = read.output if read.output is not None else ()
    if not isinstance(value, list | tuple):
        raise UnreadableError(f"operation {read.index}: {value!r} is no list or set of elements")
    return [freeze(element) for element in value]


def timelines(
    operations: Sequence[Operation], reads: Sequence[tuple[Operation, Sequence[Hashable]]]
) -> dict[Hashable, Element]:
    """Return what is known of every element that somebody tried to add."""
    elements: dict[Hashable, Element] = {}
    for add in operations:
        if add.f == "add":
            value = freeze(add.input)
            elements.setdefault(value, Element(value, [])).adds.append(add)
    _note_known(elements, reads)
    # From the last read back: an element stays among those that all later reads show until one
    # lacks it; so each read is gone through once, and no element is compared with every read.
    everywhere = set(elements)
    for read, shown in sorted(reads, key=_began, reverse=True):
        present = set(shown)
        for value in [v for v in everywhere if v not in present]:
            elements[value].last_absent = read
            everywhere.discard(value)
        for value in present:
            there = elements.get(value)
            if there is not None and there.last_present is None:
                there.last_present = read
    return elements


def _note_known(
    elements: Mapping[Hashable, Element], reads: Sequence[tuple[Operation, Sequence[Hashable]]]
) -> None:
    """Note when each element was acknowledged or first had been read."""
    seen: dict[Hashable, int] = {}
    for read, shown in reads:
        for value in shown:
            seen[value] = min(read.complete_ns, seen.get(value, read.complete_ns))
    for value, element in elements.items():
        known = [add.complete_ns for add in element.adds if add.type is EventType.OK]
        if value in seen:
            known.append(seen[value])
        element.known_ns = min(known, default=None)


Missing = Mapping[str, tuple[Operation, list[Element]]]
"""Node -> the last read there, and what it lacks though it was known before."""


def _missing_at(
    elements: Mapping[Hashable, Element], reads: Sequence[tuple[Operation, Sequence[Hashable]]]
) -> Missing:
    """Return what the last read at each node lacks, where reads name their nodes."""
    last = {read.node: (read, shown) for read, shown in sorted(reads, key=_began) if read.node}
    return {
        node: (read, [e for e in elements.values() if _lacks(e, read, present)])
        for node, (read, shown) in sorted(last.items())
        for present in [set(shown)]
    }


def _began(pair: tuple[Operation, object]) -> tuple[int, int]:
    return pair[0].invoke_ns, pair[0].index


def _lacks(element: Element, read: Operation, present: set[Hashable]) -> bool:
    known_ns = element.known_ns
    return known_ns is not None and known_ns < read.invoke_ns and element.value not in present


def _at_nodes(missing: Missing) -> Anomaly:
    """Say how much of what was acknowledged each node lacks; the worst first."""
    worst = sorted(missing.items(), key=lambda row: -len(row[1][1]))
    _, (read, lacks) = worst[0]
    acknowledged = all(any(add.type is EventType.OK for add in e.adds) for e in lacks)
    which = "acknowledged" if acknowledged else "known"
    rows = [f"{node} lacks {len(more)}" for node, (_, more) in worst if more]
    rows[0] += f" {which} elements"
    whole = [node for node, (_, more) in worst if not more]
    rows += [f"{', '.join(whole)} none"] if whole else []
    what = f"{'; '.join(rows)}. The first: {_absence(lacks[0], read)}"
    counts = {node: len(lacks) for node, (_, lacks) in missing.items()}
    return anomaly("missing-at-node", what, read, *lacks[0].adds[:1], missing=counts)


def _loss(element: Element) -> Anomaly:
    assert element.last_absent is not None
    since = "no read ever shows it"
    involved = [element.last_absent, *element.adds[:1]]
    if element.last_present is not None:
        since = f"{title(element.last_present)} was the last to show it"
        involved.append(element.last_present)
    what = f"{show(element.value)} is lost: {_absence(element, element.last_absent)}, and {since}"
    return anomaly("lost", what, *involved, **element.window())


def _stale(element: Element) -> Anomaly:
    assert element.last_absent is not None
    what = f"{_absence(element, element.last_absent)}; a later read shows it"
    return anomaly("stale", what, element.last_absent, *element.adds[:1], **element.window())


def _absence(element: Element, read: Operation) -> str:
    """Say that a read lacks an element, and since when it must have been there."""
    known_ns = element.known_ns
    assert known_ns is not None
    add = next((add for add in element.adds if add.complete_ns == known_ns), None)
    known = f"whose add (operation {add.index}) had ended" if add else "which a read had shown"
    earlier = duration(read.invoke_ns - known_ns)
    return f"{title(read)} lacks {show(element.value)}, {known} {earlier} before it began"


def _never_added(
    elements: Mapping[Hashable, Element], reads: Sequence[tuple[Operation, Sequence[Hashable]]]
) -> list[Anomaly]:
    """Return elements that a read shows though no addition can have put them there."""
    wrong: dict[Hashable, Anomaly] = {}
    for read, shown in sorted(reads, key=lambda pair: pair[0].complete_ns):
        for value in shown:
            if value in wrong:
                continue
            element = elements.get(value)
            where = f"{title(read)} shows {show(value)}, "
            possible = [] if element is None else _possible(element)
            if element is None:
                wrong[value] = anomaly("unexpected", where + "which nobody added", read)
            elif not possible:
                what = where + "of which every addition failed"
                wrong[value] = anomaly("unexpected", what, read, *element.adds)
            elif min(add.invoke_ns for add in possible) > read.complete_ns:
                what = where + "which was added only later"
                wrong[value] = anomaly("unexpected", what, read, *possible)
    return list(wrong.values())


def _possible(element: Element) -> list[Operation]:
    return [add for add in element.adds if add.type is not EventType.FAIL]


def _duplicates(
    elements: Mapping[Hashable, Element], reads: Sequence[tuple[Operation, Sequence[Hashable]]]
) -> list[Anomaly]:
    """Return each element that some read shows twice, with the read that shows it most often."""
    most: dict[Hashable, tuple[int, Operation]] = {}
    for read, shown in reads:
        if len(set(shown)) == len(shown):
            continue
        for value, count in Counter(shown).items():
            if count > most.get(value, (1, read))[0]:
                most[value] = count, read
    return [_twice(elements.get(v), v, n, r) for v, (n, r) in most.items()]


def _twice(element: Element | None, value: Hashable, times: int, read: Operation) -> Anomaly:
    adds = [] if element is None else _possible(element)
    what = f"{title(read)} shows {show(value)} {times} times"
    if len(adds) == 1:
        what += f", though it was added once (operation {adds[0].index})"
    return anomaly("duplicated", what, read, *adds, times=times)


def _quantiles(elements: Sequence[Element]) -> dict[str, float]:
    """Return quantiles of latencies, in milliseconds."""
    latencies = sorted(element.latency_ns for element in elements)
    last = len(latencies) - 1
    return {
        f"{q:g}": latencies[min(last, int(q * len(latencies)))] / 1e6
        for q in _QUANTILES
        if latencies
    }
