"""Isolation of transactions over several keys, by cycles of dependencies (as Elle does).

`check` takes the whole history (`scope` run) with option `model` (`list-append`, `rw-register`) and
`consistency`: which anomalies are forbidden.

| consistency | forbidden |
|---|---|
| `read-uncommitted` | G0 |
| `read-committed` | and G1a, G1b, G1c, future-read (a cycle of one transaction), dirty-update |
| `update-atomic` | and lost-update |
| `consistent-view` | G-single, beside what read-committed forbids |
| `snapshot-isolation` | and lost-update, G-nonadjacent |
| `repeatable-read`, `serializable` | and G2, write-skew, no-serial-order |
| `strong-session-...` of all but the last but one | these, also with the order within processes |
| `strong-...`, `strict-serializable` (default) | these, also in real time |

`checkers.cycles.levels` has all of Elle's levels. What contradicts every one of them (garbage,
internal, duplicate, incompatible or cyclic versions) is always forbidden. Other anomalies that were
seen are counted in the statistics, which also name the weakest levels that are violated, the others
that therefore are, and the strongest that are kept.

What a caller knows of the versions of registers are options of Elle's names: `wfr_keys` (assumed
unless it is said to be false, or the level is a form of read-uncommitted), `sequential_keys`,
`linearizable_keys`, `transaction_order`.

For registers, and the serializable levels, an order of all transactions is looked for once no cycle
is there (`checkers.cycles.serial`): an order is a proof that the history is right, that there is
none is `no-serial-order`. At a bound neither is known; the statistic `serial_order` says which it
was. Where values were written twice to a key, that alone decides, so a bound makes it UNKNOWN; of a
weaker level such a history is UNKNOWN unless an order was found.

What it cannot see: predicates (phantoms in Adya's sense); versions of registers that nobody read
and of which the order is not known, at weaker levels than serializability; anomalies among
transactions that all ended in `info`; more than one cycle in a component for each name. It refuses
(UNKNOWN) where an element was appended twice.

Complexity: O(n c + edges) for n transactions of c clients, plus a breadth-first search for each
edge of a component until a cycle is found; for registers see `checkers.cycles.serial`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.cycles import list_append, rw_register
from checkers.cycles.levels import (
    ALIASES,
    ALWAYS,
    FORBIDDEN,
    also_violated,
    elle_name,
    named,
    strongest_satisfied,
    weakest_violated,
)
from checkers.cycles.list_append import NotUniqueError
from checkers.cycles.rw_register import Assumptions
from checkers.cycles.search import cycle_anomaly, cycles, process_edges, realtime_edges
from checkers.cycles.serial import Answer, Serial, explain
from checkers.cycles.transactions import (
    Anomaly,
    Dependencies,
    Transaction,
    anomaly,
    transactions,
    write_skews,
)
from checkers.history import EventType
from checkers.run_input import Cancelled, RunInput, never
from checkers.verdict import CheckResult, Status

NAME = "transactions"
MODELS = ("list-append", "rw-register")
ANOMALIES_MAX = 50


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown model or consistency."""
    for name, known in (("model", MODELS), ("consistency", (*FORBIDDEN, *ALIASES))):
        given = options.get(name)
        if given is not None and given not in known:
            raise ValueError(f"unknown {name} {given!r}; known: {', '.join(known)}")
    for end, place in (options.get("transaction_order") or {}).items():
        if not str(end).isdecimal() or isinstance(place, bool | str | list | dict | None):
            raise ValueError(f"transaction_order has {place!r} for {end!r}, not a number for one")


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Search a history of transactions for anomalies. Raises HistoryError for other operations."""
    model = options.get("model") or "list-append"
    consistency = named(str(options.get("consistency") or "strict-serializable"))
    writer = list_append.WRITER if model == "list-append" else rw_register.WRITER
    history = transactions(run.operations, writer)
    try:
        if model == "list-append":
            inferred = list_append.infer(history)
        else:
            inferred = rw_register.infer(history, _assumptions(options, consistency))
    except NotUniqueError as error:
        summary = f"nothing can be inferred: {error}"
        return CheckResult(NAME, Status.UNKNOWN, summary, algorithm=model)
    order = [*process_edges(inferred.transactions), *realtime_edges(inferred.transactions)]
    found = [
        *inferred.anomalies,
        *cycles([*inferred.edges, *order], inferred.transactions, cancelled),
        *write_skews(inferred.edges, inferred.transactions),
    ]
    forbidden = (*ALWAYS, *FORBIDDEN[consistency])
    serial = None
    if model == "rw-register" and not any(anomaly["kind"] in forbidden for anomaly in found):
        serial, more = _serial(history, inferred, consistency, cancelled)
        found += more
    wrong = [anomaly for anomaly in found if anomaly["kind"] in forbidden]
    counts = Counter(str(anomaly["kind"]) for anomaly in found)
    committed = sum(t.type is EventType.OK for t in history)
    doubt = "cancelled" if cancelled() else _doubt(inferred, serial)
    status = Status.PASS
    summary = (
        f"{committed} transactions, {len(inferred.edges)} dependencies, none breaks {consistency}"
    )
    if wrong:
        status = Status.FAIL
        kinds = ", ".join(sorted({str(anomaly["kind"]) for anomaly in wrong}))
        summary = f"not {consistency}: {kinds}; first: {wrong[0]['explanation']}"
    elif doubt is not None:
        status, summary = Status.UNKNOWN, doubt
    elif not committed:
        status, summary = Status.UNDER_EXERCISED, "no transaction committed"
    statistics: dict[str, Any] = {
        "anomalies_by_kind": dict(sorted(counts.items())),
        "anomaly_types": sorted(map(elle_name, counts)),
        "weakest_violated": weakest_violated(counts),
        "also_violated": also_violated(counts),
        "strongest_satisfied": strongest_satisfied(counts),
        "edges": len(inferred.edges),
    }
    if serial is not None:
        statistics["serial_order"] = serial.answer.name.lower()
    return CheckResult(
        NAME,
        status,
        summary,
        algorithm=model,
        operations=len(history),
        anomalies=tuple(wrong[:ANOMALIES_MAX]),
        statistics=statistics,
        certificate={"order": list(serial.order)} if serial is not None and serial.order else None,
    )


def _assumptions(options: Mapping[str, Any], consistency: str) -> Assumptions:
    """Return what is taken for granted of versions.

    That writes follow reads is not, by itself, of a level that allows dirty reads: a circle of
    what was read and then written is G1c there, not G0.
    """
    follows = options.get("wfr_keys")
    if follows is None:
        follows = not consistency.endswith("read-uncommitted")
    return Assumptions(
        wfr_keys=follows,
        sequential_keys=bool(options.get("sequential_keys")),
        linearizable_keys=bool(options.get("linearizable_keys")),
        transaction_order=options.get("transaction_order") or {},
    )


def _serial(
    history: Sequence[Transaction], inferred: Dependencies, consistency: str, cancelled: Cancelled
) -> tuple[Serial | None, list[Anomaly]]:
    """Look for an order of all transactions; returns it, and what is wrong where there is none."""
    orders = orders_of(consistency)
    is_forbidden = "no-serial-order" in FORBIDDEN[consistency]
    if not is_forbidden and not inferred.unclear:
        return None, []
    optional = []
    if inferred.unclear:
        optional = [
            t for t in history if t.type is EventType.INFO and t.index not in inferred.transactions
        ]
    every = {**inferred.transactions, **{t.index: t for t in optional}}
    ordered = {"process": process_edges, "realtime": realtime_edges}
    for count in (len(orders), *range(len(orders))):
        edges = [e for name in orders[:count] for e in ordered[name](every)]
        serial = explain(
            inferred.transactions.values(), optional, [*inferred.edges, *edges], cancelled
        )
        if count == len(orders):
            asked = serial
            if serial.answer is not Answer.NONE or not is_forbidden:
                return serial, []
        if serial.answer is Answer.NONE:
            kind = "-".join(["no-serial-order", *orders[:count][-1:]])
            worst = kind, serial
            if count < len(orders):
                break
    kind, serial = worst
    if serial.cycle:
        return asked, [cycle_anomaly(kind, serial.cycle, inferred.transactions)]
    involved = [t for t in inferred.transactions.values() if t.steps]
    what = f"no order of the {len(involved)} transactions explains what they read: all were tried"
    return asked, [anomaly(kind, what, *involved[:ANOMALIES_MAX])]


def orders_of(consistency: str) -> tuple[str, ...]:
    """Return which orders of transactions a level keeps, from the weakest."""
    if consistency.startswith("strong-session-"):
        return ("process",)
    is_strict = consistency.startswith("strong-") or consistency == "strict-serializable"
    return ("process", "realtime") if is_strict else ()


def _doubt(inferred: Dependencies, serial: Serial | None) -> str | None:
    """Return why nothing wrong means nothing; None where it means that nothing is."""
    if not inferred.unclear or serial is None or serial.answer is Answer.ORDER:
        return None
    what = "and no order of all transactions was found within bounds"
    if serial.answer is Answer.NONE:
        what = "it is not serializable, and of a weaker level nothing more can be inferred"
    return f"{inferred.unclear} values were written more than once to a key: {what}"
