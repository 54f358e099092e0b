"""The score of a calibration: what share of the faulty nodes was found, and at what price."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkers.verdict import Status
from cluster.mutants.equivalents import EQUIVALENT
from cluster.mutants.mechanical import LAYERS, PREFIX

Document = Mapping[str, Any]
"""`calibration.json`: see `harness.sim.calibration.calibration`."""
Row = Mapping[str, Any]
"""One of its trials, as of `harness.sim.calibration.calibration.Trial`."""

SECTION = "calibration"
"""Of a page (`harness.page_sections`): what `section` renders."""

_ALONE = "\\*"
"""In a table, after what clients alone find."""

_Z = 1.96
"""Standard deviations of an interval of 95 %."""


def interval(found: int, of: int) -> tuple[float, float]:
    """Wilson's interval of 95 % for a share (JASA 22, 1927): sound for few trials, near 0 and 1."""
    if not of:
        return 0.0, 1.0
    share, z2 = found / of, _Z**2
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def alarms_max(alarms: int, of: int) -> float:
    """An upper bound of 95 % for the share of clean worlds that are accused.

    Without an alarm it is 3 / n, the rule of three (Hanley, Lippman-Hand: JAMA 249, 1983).
    """
    if not of:
        return 1.0
    return min(1.0, 3.0 / of) if not alarms else interval(alarms, of)[1]


def groups(trials: Sequence[Row]) -> dict[str, list[Row]]:
    """The catalogue, and the mechanical mutants of each layer, where any was tried."""
    found: dict[str, list[Row]] = {
        "catalogue": [row for row in trials if not _is_mechanical(row)],
        **{
            f"mechanical, {layer}": [
                row for row in trials if _is_mechanical(row) and row["layer"] == layer
            ]
            for layer in LAYERS
        },
    }
    return {name: rows for name, rows in found.items() if rows}


def found_per_cpu_hour(trials: Sequence[Row]) -> float:
    """The headline: mutants that were found for each processor hour that all searches took."""
    spent_s = sum(row["cpu_s"] for row in trials)
    return 3600.0 * len(_findings(trials)) / spent_s if spent_s else 0.0


def losses(document: Document, earlier: Sequence[Row]) -> list[str]:
    """Mutants that an earlier calibration found and this one, which tried them, did not.

    Only what was found within half of this one's budget: processor time varies.
    """
    missed = {row["mutant"] for row in document["trials"] if row["found"] is None}
    return sorted(
        row["mutant"]
        for row in _findings(earlier)
        if row["mutant"] in missed and row["found"]["cpu_s"] <= document["budget_s"] / 2
    )


def alarms(document: Document) -> list[Row]:
    """Clean worlds that failed."""
    return [row for row in document["clean"] if row["verdict"] == Status.FAIL.value]


def merge(earlier: Document, document: Document) -> dict[str, Any]:
    """Return a calibration with the trials of an earlier one that this one did not repeat."""
    trials = {row["mutant"]: row for row in (*earlier["trials"], *document["trials"])}
    budgets = (each.get("budget_s", 0.0) for each in (earlier, document))
    return {
        **earlier,
        **document,
        "mutants": sorted(trials),
        "budget_s": max(budgets),
        "trials": [trials[mutant] for mutant in sorted(trials)],
        "clean": document["clean"] or earlier["clean"],
    }


def page(document: Document) -> Iterator[str]:
    """The calibration as Markdown, line by line."""
    yield from _head(document)
    yield ""
    yield "| mutant | what it does | found by | seed | CPU s | by clients alone |"
    yield "|---|---|---|---|---|---|"
    trials = document["trials"]
    for row in sorted(trials, key=lambda row: (row["found"] is None, row["mutant"])):
        title = row["title"].replace("|", "\\|").replace("\n", " ")
        yield f"| `{row['mutant']}` | {title} | {_finding(row)} | {_alone(row)} |"


def section(document: Document) -> Iterator[str]:
    """The calibration in short, for a page: what found which, and what was missed."""
    yield from _head(document)
    trials = document["trials"]
    yield ""
    yield f"| found by | faulty nodes ({_ALONE}: by clients alone, too) |"
    yield "|---|---|"
    by_property: dict[str, list[str]] = {}
    for row in _findings(trials):
        mark = _ALONE if row["alone"] is not None else ""
        by_property.setdefault(row["found"]["property"], []).append(_name(row) + mark)
    for name, mutants in sorted(by_property.items()):
        yield f"| {name} | {', '.join(mutants)} |"
    missed = [row for row in trials if row["found"] is None and not _is_equivalent(row)]
    catalogue = [f"{_name(row)} {row['seeds']}" for row in missed if not _is_mechanical(row)]
    if catalogue:
        yield ""
        yield f"Missed of the catalogue, with the worlds that were tried: {', '.join(catalogue)}."
    mechanical = [row for row in missed if _is_mechanical(row)]
    for what, is_reached in (("missed though reached", True), ("never reached", False)):
        names = [_name(row) for row in mechanical if row["is_reached"] is is_reached]
        if names:
            yield ""
            yield f"Mechanical ones {what}: {', '.join(names)}."
    equivalent = [_name(row) for row in trials if _is_equivalent(row)]
    if equivalent:
        yield ""
        yield f"Equivalent, as `cluster/mutants/equivalents.py` argues: {', '.join(equivalent)}."


def _head(document: Document) -> Iterator[str]:
    trials, clean = document["trials"], document["clean"]
    count = len(alarms(document))
    found, rate = len(_findings(trials)), found_per_cpu_hour(trials)
    of = len(trials) - sum(map(_is_equivalent, trials))
    yield (
        f"**{rate:.0f} bugs per CPU hour**: {found} of {of} faulty nodes found, each "
        f"within {document['budget_s']:g} s of one core, worlds from seed "
        f"{document['first_seed']} on."
    )
    if clean:
        most = 100 * alarms_max(count, len(clean))
        yield (
            f"Of {len(clean)} worlds of the true node {count} were accused: fewer than "
            f"{most:.2g} %, with 95 % confidence."
        )
    yield ""
    yield (
        "| faulty nodes | found | share, 95 % interval | by clients alone | never reached "
        "| equivalent | seeds, median | CPU s, median |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for name, rows in groups(trials).items():
        yield f"| {name} | {' | '.join(_figures(rows))} |"


def _is_mechanical(row: Row) -> bool:
    return bool(row["mutant"].startswith(PREFIX))


def _is_equivalent(row: Row) -> bool:
    """Whether it is known that it cannot be found; what was found is not equivalent."""
    return row["found"] is None and row["mutant"] in EQUIVALENT


def _name(row: Row) -> str:
    return f"`{row['mutant']}`"


def _findings(trials: Sequence[Row]) -> list[Row]:
    return [row for row in trials if row["found"] is not None]


def _figures(rows: Sequence[Row]) -> Iterator[str]:
    found, equivalent = _findings(rows), sum(map(_is_equivalent, rows))
    of = len(rows) - equivalent
    low, high = interval(len(found), of)
    yield f"{len(found)} of {of}"
    yield f"{100 * len(found) / max(of, 1):.0f} % ({100 * low:.0f} to {100 * high:.0f})"
    yield str(sum(row["alone"] is not None for row in rows))
    yield str(sum(row["is_reached"] is False and not _is_equivalent(row) for row in rows))
    yield str(equivalent)
    for figure in ("seeds", "cpu_s"):
        values = [row["found"][figure] for row in found]
        yield f"{statistics.median(values):.3g}" if values else "-"


def _finding(row: Row) -> str:
    found = row["found"]
    if found is None:
        why = "never reached" if row["is_reached"] is False else f"not in {row['seeds']} worlds"
        why += f", in {row['errors']} the harness failed" if row["errors"] else ""
        return f"{why} | - | {row['cpu_s']:g}"
    return f"{found['property']} | {found['seed']} | {found['cpu_s']:g}"


def _alone(row: Row) -> str:
    alone = row["alone"]
    return "-" if alone is None else f"{alone['property']}, {alone['cpu_s']:g} s"
