"""Isolation of transactions over several keys, by cycles of dependencies (as Elle does).

`check` takes the whole history (`scope` run) with option `model` (`list-append`, `rw-register`) and
`consistency`: which anomalies are forbidden.

| consistency | forbidden |
|---|---|
| `read-uncommitted` | G0 |
| `read-committed` | and G1a, G1b, G1c, future-read (a cycle of one transaction), dirty-update |
| `update-atomic` | and lost-update |
| `snapshot-isolation` | and G-single, G-nonadjacent |
| `repeatable-read`, `serializable` | and G2 |
| `strong-session-...` of all but the second | these, also with the order within processes |
| `strong-...`, `strict-serializable` (default) | these, also in real time |

What contradicts every one of them (garbage, internal, duplicate, incompatible or cyclic versions)
is always forbidden. Other anomalies that were seen are counted in the statistics, which also name
the weakest levels that are violated and the strongest that are kept (`checkers.cycles.levels`).

What it cannot see: predicates (phantoms in Adya's sense); versions that nobody read and of which
the order is not known (above all of registers); anomalies among transactions that all ended in
`info`; more than one cycle in a component for each name. It refuses (UNKNOWN) where an element was
written twice. PASS: no such cycle follows from what was read, not that the history is serializable.

Complexity: O(n c + edges) for n transactions of c clients, plus a breadth-first search for each
edge of a component until a cycle is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from checkers.cycles import list_append, rw_register
from checkers.cycles.levels import ALWAYS, FORBIDDEN, strongest_satisfied, weakest_violated
from checkers.cycles.list_append import NotUniqueError
from checkers.cycles.search import cycles, process_edges, realtime_edges
from checkers.cycles.transactions import transactions
from checkers.history import EventType
from checkers.run_input import Cancelled, RunInput, never
from checkers.verdict import CheckResult, Status

NAME = "transactions"
MODELS = ("list-append", "rw-register")
ANOMALIES_MAX = 50


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown model or consistency."""
    for name, known in (("model", MODELS), ("consistency", tuple(FORBIDDEN))):
        given = options.get(name)
        if given is not None and given not in known:
            raise ValueError(f"unknown {name} {given!r}; known: {', '.join(known)}")


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Search a history of transactions for anomalies. Raises HistoryError for other operations."""
    model = options.get("model") or "list-append"
    consistency = str(options.get("consistency") or "strict-serializable")
    writer = list_append.WRITER if model == "list-append" else rw_register.WRITER
    history = transactions(run.operations, writer)
    try:
        if model == "list-append":
            inferred = list_append.infer(history)
        else:
            by_key = bool(options.get("linearizable_keys"))
            inferred = rw_register.infer(history, linearizable_keys=by_key)
    except NotUniqueError as error:
        summary = f"nothing can be inferred: {error}"
        return CheckResult(NAME, Status.UNKNOWN, summary, algorithm=model)
    order = [*process_edges(inferred.transactions), *realtime_edges(inferred.transactions)]
    found = [
        *inferred.anomalies,
        *cycles([*inferred.edges, *order], inferred.transactions, cancelled),
    ]
    forbidden = (*ALWAYS, *FORBIDDEN[consistency])
    wrong = [anomaly for anomaly in found if anomaly["kind"] in forbidden]
    counts = Counter(str(anomaly["kind"]) for anomaly in found)
    committed = sum(t.type is EventType.OK for t in history)
    status = Status.PASS
    summary = (
        f"{committed} transactions, {len(inferred.edges)} dependencies, none breaks {consistency}"
    )
    if wrong:
        status = Status.FAIL
        kinds = ", ".join(sorted({str(anomaly["kind"]) for anomaly in wrong}))
        summary = f"not {consistency}: {kinds}; first: {wrong[0]['explanation']}"
    elif cancelled():
        status, summary = Status.UNKNOWN, "cancelled"
    elif not committed:
        status, summary = Status.UNDER_EXERCISED, "no transaction committed"
    return CheckResult(
        NAME,
        status,
        summary,
        algorithm=model,
        operations=len(history),
        anomalies=tuple(wrong[:ANOMALIES_MAX]),
        statistics={
            "anomalies_by_kind": dict(sorted(counts.items())),
            "weakest_violated": weakest_violated(counts),
            "strongest_satisfied": strongest_satisfied(counts),
            "edges": len(inferred.edges),
        },
    )
