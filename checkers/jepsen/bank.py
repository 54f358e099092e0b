"""Accounts between which money is transferred, read all at once (Jepsen's bank test).

| operation | value |
|---|---|
| `transfer` | `{"from": account, "to": account, "amount": n}` |
| `read` | ok: balances by account, or a list of them, accounts being its places |

**Statement.** Every read adds up to the same total, the one that is there from the beginning; it
shows no account that there is not, each with a number, and none below zero unless that is allowed.
Transfers keep the total, so a read with another one did not see a snapshot: it saw one account
before a transfer and another account after it, or money was made or lost.

Without option `total_amount` reads are held against one another: two that differ cannot both be
right. The total that most reads have is then taken for the right one, which decides what is shown
as wrong, not whether something is. (Jepsen's test knows its total; a history file does not.)

**Cannot see.** A read that mixes two snapshots with the same total. Whether each read is a snapshot
at all is for the model `accounts` of `linearizable`, which needs the transfers.

Numbers are compared as decimals, so that `0.1 + 0.2` is `0.3`. O(accounts x reads).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from checkers.history import EventType, HistoryError, Operation
from checkers.jepsen.findings import Findings, UnreadableError, refuse_others
from checkers.verdict import Anomaly, CheckResult, anomaly
from porcupine_py.models.accounts import amount_of, balances_of
from porcupine_py.search.outcome import Cancelled, never
from porcupine_py.search.wording import title
from porcupine_py.values import render_decimal

NAME = "bank"
OPTIONS: Mapping[str, type | tuple[type, ...]] = {
    "accounts": (list, tuple),
    "total_amount": (int, float),
    "negative_balances": bool,
}
Balances = dict[str, Fraction | None]


def check_key(
    operations: Sequence[Operation], options: Mapping[str, Any], cancelled: Cancelled = never
) -> CheckResult:
    """Judge the reads of one bank."""
    del cancelled  # one pass
    below_zero = bool(options.get("negative_balances"))
    promise = "reads that add up to one total" + ("" if below_zero else ", no balance below zero")
    found = Findings(NAME, promise, operations)
    reads = [o for o in operations if o.f == "read" and o.type is EventType.OK]
    try:
        refuse_others(operations, "read", "transfer")
        shown = [(read, _balances(read)) for read in reads]
        given = options.get("total_amount")
        asked = None if given is None else amount_of(given)
    except (UnreadableError, HistoryError) as error:
        return found.unreadable(str(error))
    accounts = options.get("accounts")
    known = None if accounts is None else {str(account) for account in accounts}
    whole = [balances for _, balances in shown if None not in balances.values()]
    total = _most_frequent(map(_sum, whole)) if asked is None else asked
    for read, balances in shown:
        wrong = _problem(read, balances, known, total, below_zero=below_zero)
        if wrong is not None:
            found.wrong.append(wrong)
    found.counts = {
        "reads": len(reads),
        "errors": len(found.wrong),
        "transfers": sum(o.f == "transfer" and o.type is EventType.OK for o in operations),
    }
    found.more = {"errors_by_type": _by_type(found.wrong)}
    idle = None
    if not any(whole):
        idle = "no read shows a balance" if reads else "no read was ok"
    elif asked is None and len(whole) < 2:
        idle = "no two reads to compare, and no total_amount"
    return found.result(idle=idle)


def _balances(read: Operation) -> Balances:
    """Return the balances that a read shows, by account; None where there is no number."""
    try:
        return balances_of({} if read.output is None else read.output)
    except HistoryError as error:
        raise UnreadableError(f"operation {read.index}: {error}") from error


def _float(value: Fraction) -> float:
    """Return the nearest number that JSON has."""
    largest = sys.float_info.max
    return float(max(-Fraction(largest), min(Fraction(largest), value)))


def _sum(balances: Balances) -> Fraction:
    return sum((b for b in balances.values() if b is not None), Fraction(0))


def _most_frequent(totals: Any) -> Fraction | None:
    counts = Counter(totals)
    return max(counts, key=lambda total: counts[total]) if counts else None


def _problem(
    read: Operation,
    balances: Balances,
    accounts: set[str] | None,
    total: Fraction | None,
    *,
    below_zero: bool,
) -> Anomaly | None:
    """Return the first thing that is wrong with a read, in the order in which Jepsen looks."""
    where = title(read)
    unexpected = sorted(balances.keys() - accounts) if accounts is not None else []
    if unexpected:
        what = f"{where} shows accounts that do not exist: {', '.join(unexpected)}"
        return anomaly("unexpected-key", what, read, accounts=unexpected, badness=len(unexpected))
    missing = sorted(account for account, balance in balances.items() if balance is None)
    if missing:
        what = f"{where} shows no balance of {', '.join(missing)}"
        return anomaly("nil-balance", what, read, accounts=missing, badness=len(missing))
    if total is not None and _sum(balances) != total:
        got = _sum(balances)
        added = f"the balances in {where} add up to {render_decimal(got)}"
        what = f"{added} instead of {render_decimal(total)}"
        return anomaly(
            "wrong-total", what, read, total=_float(got), badness=_float(abs(got - total))
        )
    negative = {a: b for a, b in balances.items() if b is not None and b < 0}
    if negative and not below_zero:
        listed = ", ".join(
            f"{account}: {render_decimal(b)}" for account, b in sorted(negative.items())
        )
        what = f"{where} shows balances below zero: {listed}"
        badness = _float(-sum(negative.values(), Fraction(0)))
        return anomaly("negative-value", what, read, accounts=sorted(negative), badness=badness)
    return None


def _by_type(errors: Sequence[Anomaly]) -> dict[str, dict[str, Any]]:
    """Return for each type how many there are, and which operations are first, worst and last."""
    summary: dict[str, dict[str, Any]] = {}
    for kind in sorted({str(error["kind"]) for error in errors}):
        some = [error for error in errors if error["kind"] == kind]
        worst = max(some, key=lambda error: float(error["badness"]))
        summary[kind] = {
            "count": len(some),
            "first": some[0]["operations"][0],
            "worst": worst["operations"][0],
            "last": some[-1]["operations"][0],
        }
        if kind == "wrong-total":
            totals = [error["total"] for error in some]
            summary[kind] |= {"lowest": min(totals), "highest": max(totals)}
    return summary
