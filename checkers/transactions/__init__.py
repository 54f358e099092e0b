"""Isolation of transactions over several keys, by cycles of dependencies (as Elle does).

`check` takes the whole history (`scope` run) with option `model` (`list-append`, `rw-register`) and
`consistency`: which anomalies are forbidden.

| consistency | forbidden |
|---|---|
| every level | garbage, internal, duplicate, append-order, cyclic-versions |
| `read-uncommitted` | and G0 |
| `read-committed` | and G1a, G1b, G1c, incompatible-order, future-read, dirty-update |
| `read-atomic` | and fractured-read, non-repeatable-read |
| `consistent-view` | G-single and these, beside what read-committed forbids |
| `snapshot-isolation` | and lost-update, G-nonadjacent, no-snapshot-order |
| `repeatable-read`, `serializable` | and G2, write-skew, no-serial-order |
| `strong-session-...` of some | these, also with the order within processes |
| `strong-...`, `strict-serializable` (default) | these, also in real time |

`levels` has all of Elle's levels, and what proves a PASS (`levels.proven`); docs/checkers.md has
the options, which are Elle's. The statistics count all anomalies, and name the weakest levels that
are violated, the others that therefore are, and the strongest that are proven.

A completion that is not of its transaction (another micro-operation, more, fewer) is a FAIL
(`foreign-reply`): nothing follows from what else it says. Refused (UNKNOWN) is an element that was
appended twice. Cannot see: predicates (phantoms in Adya's sense); anomalies among transactions that
all ended in `info`; more than one cycle in a component for each name.

Complexity: O(n c + edges) for n transactions of c clients, plus a breadth-first search for each
edge of a component until a cycle is found; for orders see `checkers.transactions.serial`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.history import EventType, HistoryError
from checkers.run_input import RunInput
from checkers.transactions import list_append, rw_register
from checkers.transactions.levels import (
    ALIASES,
    ALWAYS,
    FORBIDDEN,
    NOT_LOOKED_FOR,
    SERIALIZABLE,
    SNAPSHOT,
    also_violated,
    elle_name,
    implied_by,
    level_key,
    proof_of,
    proven,
    strongest,
    weakest_violated,
)
from checkers.transactions.list_append import NotUniqueError
from checkers.transactions.operations import (
    Dependencies,
    ReplyError,
    Transaction,
    transactions,
    write_skews,
)
from checkers.transactions.rw_register import Assumptions
from checkers.transactions.search import (
    cycle_anomaly,
    cycles,
    find_fractured_reads,
    process_edges,
    realtime_edges,
)
from checkers.transactions.serial import Answer, Serial, explain, explain_snapshots
from checkers.verdict import Anomaly, CheckResult, Status, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "transactions"
MODELS = ("list-append", "rw-register")
OF_REGISTERS = ("wfr_keys", "sequential_keys", "linearizable_keys", "transaction_order")
"""Options that say what is known of versions, which lists show themselves."""
ANOMALIES_MAX = 50


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown model or consistency, options of another model, no order."""
    for name, known in (("model", MODELS), ("consistency", (*FORBIDDEN, *ALIASES))):
        given = options.get(name)
        if given is not None and given not in known:
            raise ValueError(f"unknown {name} {given!r}; known: {', '.join(known)}")
    given = [name for name in OF_REGISTERS if options.get(name) is not None]
    if given and (options.get("model") or MODELS[0]) == MODELS[0]:
        raise ValueError(
            f"{given[0].replace('_', '-')} is for rw-register alone: "
            f"reads of lists show the order of versions"
        )
    order = options.get("transaction_order") or {}
    for end, place in order.items():
        if not str(end).isdecimal() or isinstance(place, bool | str | list | dict | None):
            raise ValueError(f"transaction_order has {place!r} for {end!r}, not a number for one")
    if len(set(order.values())) < len(order):
        raise ValueError("transaction_order has a place twice")


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Search a history of transactions for anomalies, and for a proof that there is none."""
    model = options.get("model") or MODELS[0]
    consistency = level_key(str(options.get("consistency") or "strict-serializable"))
    writer = list_append.WRITER if model == "list-append" else rw_register.WRITER
    try:
        history = transactions(run.operations, writer)
        if model == "list-append":
            inferred = list_append.infer(history)
        else:
            inferred = rw_register.infer(history, _assumptions(options, consistency))
    except ReplyError as error:
        return _foreign_reply(error, model, len(run.operations))
    except (HistoryError, NotUniqueError) as error:
        summary = f"nothing can be inferred: {error}"
        return CheckResult(NAME, Status.UNKNOWN, summary, algorithm=model)
    orders = [*process_edges(inferred.transactions), *realtime_edges(inferred.transactions)]
    found = [
        *inferred.anomalies,
        *cycles([*inferred.edges, *orders], inferred.transactions, cancelled),
        *find_fractured_reads(inferred.edges, inferred.atomic, inferred.transactions),
        *write_skews(inferred.edges, inferred.transactions),
    ]
    kept = _proven(found, inferred, model, set())
    forbidden = (*ALWAYS, *FORBIDDEN[consistency])
    serial = None
    by = proof_of(consistency)
    if consistency not in kept and not any(anomaly["kind"] in forbidden for anomaly in found):
        serial, more = _serial(history, inferred, by, model, cancelled)
        found += more
        kept = _proven(found, inferred, model, {by} if serial.answer is Answer.ORDER else set())
    wrong = [anomaly for anomaly in found if anomaly["kind"] in forbidden]
    counts = Counter(str(anomaly["kind"]) for anomaly in found)
    committed = sum(t.type is EventType.OK for t in history)
    status = Status.PASS
    summary = (
        f"{committed} transactions, {len(inferred.edges)} dependencies, none breaks {consistency}"
        + (f": {implied_by(consistency, kept)} implies it" if consistency in NOT_LOOKED_FOR else "")
    )
    if wrong:
        status = Status.FAIL
        kinds = ", ".join(sorted({str(anomaly["kind"]) for anomaly in wrong}))
        summary = f"not {consistency}: {kinds}; first: {wrong[0]['explanation']}"
    elif cancelled():
        status, summary, kept = Status.UNKNOWN, "cancelled", frozenset()
    elif consistency not in kept:
        status, summary = Status.UNKNOWN, _doubt(inferred, serial, consistency)
    elif not committed:
        status, summary = Status.UNDER_EXERCISED, "no transaction committed"
    statistics: dict[str, Any] = {
        "anomalies_by_kind": dict(sorted(counts.items())),
        "anomaly_types": sorted(set(map(elle_name, counts))),
        "weakest_violated": weakest_violated(counts),
        "also_violated": also_violated(counts),
        "strongest_satisfied": strongest(kept),
        "edges": len(inferred.edges),
    }
    if serial is not None:
        order = "serial_order" if by in SERIALIZABLE else "snapshot_order"
        statistics[order] = serial.answer.name.lower()
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


def _foreign_reply(error: ReplyError, model: str, operations: int) -> CheckResult:
    """Return the verdict on a history with a completion that is not of its transaction."""
    summary = f"foreign-reply: {error}"
    found = anomaly("foreign-reply", str(error), error.operation)
    return CheckResult(
        NAME, Status.FAIL, summary, algorithm=model, operations=operations, anomalies=(found,)
    )


def _proven(
    found: Sequence[Anomaly], inferred: Dependencies, model: str, orders: set[str]
) -> frozenset[str]:
    """Return the levels that are proven; of unclear values by orders of transactions alone."""
    kinds = {str(anomaly["kind"]) for anomaly in found}
    kept = proven(
        kinds,
        is_clear=not inferred.unclear,
        is_list=model == "list-append",
        is_total=inferred.is_total,
        found=orders,
    )
    if "read-atomic" in strongest(kept) and inferred.partly_read() is not None:
        kept -= {"read-atomic", "monotonic-atomic-view"}
    return kept


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
        wfr_is_given=options.get("wfr_keys") is True,
        sequential_keys=bool(options.get("sequential_keys")),
        linearizable_keys=bool(options.get("linearizable_keys")),
        transaction_order=options.get("transaction_order") or {},
    )


def _serial(
    history: Sequence[Transaction],
    inferred: Dependencies,
    level: str,
    model: str,
    cancelled: Cancelled,
) -> tuple[Serial, list[Anomaly]]:
    """Look for the order that proves a level; returns it, and what is wrong where there is none."""
    must = list(inferred.transactions.values())
    optional = []
    if inferred.unclear:
        optional = [
            t for t in history if t.type is EventType.INFO and t.index not in inferred.transactions
        ]
    every = {t.index: t for t in (*must, *optional)}
    if model == "list-append":
        must = list_append.as_registers(must)
    of_all = level in SERIALIZABLE

    def search(*names: str, whole: bool = of_all, is_short: bool = False) -> Serial:
        edges = [e for name in names for e in _ORDERED[name](every)]
        find = explain if whole else explain_snapshots
        return find(must, optional, [*inferred.edges, *edges], cancelled, is_short=is_short)

    orders = (SERIALIZABLE if of_all else SNAPSHOT)[level]
    if level != "strict-serializable":  # most histories are, it is a short way, and proves the rest
        serial = search(*_ORDERED, whole=True, is_short=True)
        if serial.answer is Answer.ORDER:
            return serial, []
    asked = worst = search(*orders)
    if asked.answer is not Answer.NONE:
        return asked, []
    needed = orders
    for count in range(len(orders)):
        serial = search(*orders[:count])
        if serial.answer is Answer.NONE:
            needed, worst = orders[:count], serial
            break
    kind = "-".join(["no-serial-order" if of_all else "no-snapshot-order", *needed[-1:]])
    if worst.cycle:
        return asked, [cycle_anomaly(kind, worst.cycle, inferred.transactions)]
    involved = [t for t in inferred.transactions.values() if t.steps]
    order = "any order" + _KEEPS[needed[-1] if needed else ""]
    how = (
        f"one after another in {order}"
        if of_all
        else f"each on a snapshot, committing in {order} without two concurrent writers of one key"
    )
    what = f"the {len(involved)} transactions cannot have run {how} and read what they read"
    return asked, [anomaly(kind, f"{what} (every order was tried)", *involved[:ANOMALIES_MAX])]


_ORDERED = {"process": process_edges, "realtime": realtime_edges}
"""Order that a level keeps -> the edges of it."""
_KEEPS = {
    "": "",
    "process": " that keeps that of each process",
    "realtime": " that keeps real time",
}


def _doubt(inferred: Dependencies, serial: Serial | None, consistency: str) -> str:
    """Return why nothing wrong means nothing."""
    half = inferred.partly_read()
    if consistency == "read-atomic" and half is not None:
        return f"whether that is read-atomic depends on what an append is a write of: {half}"
    by = proof_of(consistency)
    what = "all transactions" if by in SERIALIZABLE else "all snapshots and commits"
    twice = ""
    if inferred.unclear:
        twice = f"{inferred.unclear} values were written more than once to a key: "
    if serial is not None and serial.answer is Answer.OPEN:
        return f"{twice}no order of {what} was found within bounds, so {consistency} is not proven"
    if consistency in NOT_LOOKED_FOR:
        return (
            f"{consistency} is not looked for by what defines it: nothing was found that breaks "
            f"it, and the history does not keep {by}, which would imply it"
        )
    return f"{twice}it is not {by}, and nothing else would prove {consistency}"
