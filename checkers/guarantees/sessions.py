"""Session guarantees and sequential consistency of one register with unique writes.

Terry and others (1994), for one key: whatever a session did first with version v and then with
another version w demands that v comes before w:

| guarantee | first | then |
|---|---|---|
| `monotonic-reads` | read v | read w |
| `read-your-writes` | wrote v | read w |
| `writes-follow-reads` | read v | wrote w |
| `monotonic-writes` | wrote v | wrote w |

Theorem: with unique writes there is one order of versions that satisfies a set of demands exactly
when the demands have no cycle. (A read names its version, so demands are relations of versions and
nothing else; any topological order will do, the initial version first, which no demand may put
behind another.) All four together are sequential consistency (Lamport 1979) of the key: sort the
versions topologically, and within a version the write before its reads, each process in its order;
impossible only if a session reads a version before it writes it itself (`read-before-write`).

Where the server returns offsets of writes, these order the versions too, and each guarantee must
hold of that order. A session is a process, or, with `per_node`, what a process did at one node.
With `model` "topics" the versions of a key are the creations of a topic of that name, known by its
ids; deletions, and reads that found no topic, demand nothing.

Indeterminate operations: a write that was read happened; one that was not, and a read, demand
nothing. Complexity: O(n log n) with all four, else O(n^2) for each session. FAIL names the broken
guarantee by the demands of a shortest cycle; PASS carries an order of the versions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from checkers.history import EventType, Operation
from checkers.transactions.graph import components
from checkers.transactions.operations import Edge
from checkers.transactions.search import in_components
from checkers.verdict import PROMISE, CheckResult, Status, anomaly
from porcupine_py.search.outcome import Cancelled, never
from porcupine_py.values import freeze, show

NAME = "sessions"
GUARANTEES = ("monotonic-reads", "read-your-writes", "writes-follow-reads", "monotonic-writes")
_BY_FUNCTIONS = {
    ("read", "read"): "monotonic-reads",
    ("write", "read"): "read-your-writes",
    ("read", "write"): "writes-follow-reads",
    ("write", "write"): "monotonic-writes",
}
INITIAL: Hashable = None
_SESSIONS = "sequential"
MODELS = ("register", "topics")


@dataclass(slots=True)
class _Versions:
    """Versions of one key by number; 0 is the initial one."""

    numbers: dict[Hashable, int] = field(default_factory=lambda: {INITIAL: 0})
    writes: dict[int, Operation] = field(default_factory=dict)

    def of(self, operation: Operation) -> int | None:
        value = operation.input if operation.f == "write" else operation.output
        return self.numbers.get(freeze(value))


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown guarantee or model."""
    if options.get("model", MODELS[0]) not in MODELS:
        raise ValueError(f"unknown model {options['model']!r}; known: {', '.join(MODELS)}")
    for guarantee in options.get("guarantees") or ():
        if guarantee not in GUARANTEES:
            raise ValueError(f"unknown guarantee {guarantee!r}; known: {', '.join(GUARANTEES)}")


def check_key(
    operations: Sequence[Operation], options: Mapping[str, Any], cancelled: Cancelled = never
) -> CheckResult:
    """Judge one key by the guarantees asked for; all four are sequential consistency."""
    asked = tuple(options.get("guarantees") or GUARANTEES)
    key = operations[0].key if operations else None
    known = [o for o in operations if o.type is not EventType.FAIL]
    if options.get("model") == "topics":
        known = _creations(known)
    versions = _versions(known)
    per_node = bool(options.get("per_node"))
    nameless = any(o.node is None and o.type is EventType.OK for o in known if per_node)
    if versions is None or nameless or cancelled():
        why = "a value was written twice, or there are other functions than read and write"
        reason = "not every answer names its node" if nameless else "cancelled"
        reason = why if versions is None else reason
        return CheckResult(NAME, Status.UNKNOWN, reason, key=key, operations=len(operations))
    wrong = _phantom(known, versions)
    edges = list(_by_offsets(versions))
    for session in _sessions(known, per_node=per_node):
        wrong = wrong or _read_before_own_write(session, versions)
        edges += [e for e in _demands(session, versions, asked) if e.kind in asked]
    wrong = wrong or _cycle(edges, versions, {o.index: o for o in known})
    proof: dict[str, Any]
    anomalies: tuple[dict[str, Any], ...] = ()
    if wrong is not None:
        status, summary, anomalies = Status.FAIL, str(wrong["explanation"]), (wrong,)
        proof = {"operations": wrong["operations"]}
    else:
        order = _topological(edges, len(versions.numbers))
        values = list(versions.numbers)
        proof = {"versions": [_plain(values[number]) for number in order]}
        status = Status.PASS
        held = "sequentially consistent" if set(asked) == set(GUARANTEES) else ", ".join(asked)
        summary = f"{held}: {len(order)} versions in one order"
    return CheckResult(
        NAME,
        status,
        summary,
        key=key,
        algorithm="versions",
        operations=len(operations),
        anomalies=anomalies,
        statistics={PROMISE: _promise(asked, per_node=per_node)},
        certificate=proof,
    )


def _promise(asked: Sequence[str], *, per_node: bool) -> str:
    """Name what was checked, of which reads and writes."""
    held = "sequential consistency" if set(asked) == set(GUARANTEES) else ", ".join(asked)
    return f"{held} (of each client at each node)" if per_node else held


def _creations(operations: Sequence[Operation]) -> list[Operation]:
    """Take the creations of a topic for versions: each has an id of its own, which reads show.

    Which id an indeterminate creation had is not known. An id that no answer names is given to one
    of them, in a session of its own, so that nothing is demanded of it.
    """
    found, unknown, created = [], [], set()
    for operation in operations:
        value = operation.output
        if operation.f == "create" and operation.type is not EventType.OK:
            unknown.append(operation)
        elif operation.f == "create":
            created.add(value["id"])
            found.append(replace(operation, f="write", input=value["id"]))
        elif operation.f == "describe" and operation.type is EventType.OK and value is not None:
            found.append(replace(operation, f="read", output=value["id"]))
    ids = dict.fromkeys(read.output for read in found if read.f == "read")
    unnamed = [id_ for id_ in ids if id_ not in created]
    for number, (operation, id_) in enumerate(zip(unknown, unnamed, strict=False)):
        found.append(replace(operation, f="write", input=id_, process=-1 - number))
    return found


def _versions(operations: Sequence[Operation]) -> _Versions | None:
    versions = _Versions()
    for operation in operations:
        if operation.f == "write":
            value = freeze(operation.input)
            if value in versions.numbers:
                return None
            versions.writes[len(versions.numbers)] = operation
            versions.numbers[value] = len(versions.numbers)
        elif operation.f != "read":
            return None
    return versions


def _sessions(operations: Sequence[Operation], *, per_node: bool) -> list[list[Operation]]:
    """Group what completed, in order; an indeterminate write is the last of its process."""
    sessions: dict[tuple[Any, Any], list[Operation]] = {}
    for operation in sorted(operations, key=lambda o: (o.invoke_ns, o.index)):
        if operation.type is EventType.OK or operation.f == "write":
            name = (operation.process, operation.node if per_node else None)
            sessions.setdefault(name, []).append(operation)
    return list(sessions.values())


def _phantom(operations: Sequence[Operation], versions: _Versions) -> dict[str, Any] | None:
    for operation in operations:
        if operation.type is EventType.OK and versions.of(operation) is None:
            explanation = f"{_reader(operation)} read {show(operation.output)}, which nobody wrote"
            return anomaly("phantom-read", explanation, operation)
    return None


def _reader(operation: Operation) -> str:
    return f"process {operation.process} (operation {operation.index})"


def _read_before_own_write(
    session: Sequence[Operation], versions: _Versions
) -> dict[str, Any] | None:
    read: dict[int | None, Operation] = {}
    for operation in session:
        version = versions.of(operation)
        if operation.f == "read":
            read.setdefault(version, operation)
        elif version in read:
            first = read[version]
            explanation = (
                f"{_reader(first)} read {show(operation.input)} before it wrote it itself "
                f"(operation {operation.index})"
            )
            return anomaly("read-before-write", explanation, first, operation)
    return None


def _demands(
    session: Sequence[Operation], versions: _Versions, asked: Sequence[str]
) -> Iterator[Edge]:
    """Compare each operation with those before it.

    Of one function only the last needs to be compared where its own guarantee (reads among reads,
    writes among writes) is asked for too: what came before that follows.
    """
    before: dict[str, list[tuple[int, Operation]]] = {"read": [], "write": []}
    for operation in session:
        version = versions.of(operation)
        if version is None:
            continue  # A phantom, which is reported by itself.
        for f, earlier in before.items():
            own = _BY_FUNCTIONS[f, f]
            for other, source in earlier[-1:] if own in asked else earlier:
                if other != version:
                    kind = _BY_FUNCTIONS[f, operation.f]
                    yield Edge(other, version, kind, f"{source.index} {operation.index}")
        seen = before[operation.f]
        if not seen or seen[-1][0] != version:
            seen.append((version, operation))


def _by_offsets(versions: _Versions) -> Iterator[Edge]:
    """Order versions by the offsets of their writes."""
    offsets = [(o.offset, n) for n, o in versions.writes.items() if o.offset is not None]
    for (_, before), (_, after) in pairwise(sorted(offsets)):
        pair = f"{versions.writes[before].index} {versions.writes[after].index}"
        yield Edge(before, after, "offsets", pair)


def _cycle(
    edges: Sequence[Edge], versions: _Versions, by_index: Mapping[int, Operation]
) -> dict[str, Any] | None:
    """Find a shortest cycle; whatever comes before the initial version is one with it."""
    first = [Edge(0, n, "initial", "") for n in range(1, len(versions.numbers))]
    every = [*edges, *(first if any(edge.target == 0 for edge in edges) else ())]
    found = in_components(every, sorted({edge.kind for edge in every}))
    best = min(found, key=len, default=None)
    return None if best is None else _cycle_anomaly(best, versions, by_index)


_PAST = {"read": "read", "write": "wrote"}


def _cycle_anomaly(
    cycle: Sequence[Edge], versions: _Versions, by_index: Mapping[int, Operation]
) -> dict[str, Any]:
    shown = ["nothing" if value is None else show(value) for value in versions.numbers]
    kinds = list(dict.fromkeys(edge.kind for edge in cycle if edge.kind in GUARANTEES))
    demands = []
    operations: list[int] = []
    for edge in cycle:
        pair = [by_index[int(index)] for index in edge.why.split()]
        operations += [operation.index for operation in pair]
        before, after = shown[edge.source], shown[edge.target]
        if not pair:
            demands.append(f"{before} was there at the beginning, before {after}")
        elif edge.kind == "offsets":
            demands.append(
                f"{before} was written at offset {pair[0].offset} (operation {pair[0].index}), "
                f"below {after} at offset {pair[1].offset} (operation {pair[1].index})"
            )
        else:
            demands.append(
                f"process {pair[0].process} {_PAST[pair[0].f]} {before} (operation "
                f"{pair[0].index}) and then {_PAST[pair[1].f]} {after} (operation {pair[1].index})"
            )
    much = "both" if len(demands) == 2 else "all of it"
    text = f"{'; '.join(demands)}: no order of these values allows {much}"
    return anomaly(
        kinds[0] if len(kinds) == 1 else _SESSIONS, text, operations=sorted(set(operations))
    )


def _topological(edges: Sequence[Edge], count: int) -> list[int]:
    """Return all versions in an order that every edge agrees with, the initial one first."""
    graph: dict[int, list[int]] = {number: [] for number in range(count)}
    for edge in edges:
        graph[edge.source].append(edge.target)
    order = [group[0] for group in components(graph)][::-1]
    assert len(order) == count, "the demands have no cycle"
    return [0, *(number for number in order if number != 0)]


def _plain(value: Hashable) -> Any:
    return value if value is None or isinstance(value, str | int | float) else repr(value)
