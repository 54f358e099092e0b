"""The rows of a scripted schedule: timed faults, and strands of steps.

A row with `steps` is a strand (`harness.plan.strands`); any other is one fault at a time
(`harness.plan.schedule.Entry`). Both kinds may stand in one schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cluster.schemas import Place, Schema, where_of
from harness.errors import PlanError
from harness.plan.schedule import Entry
from harness.plan.strands import Step, Strand, check_strand
from nemeses.base import ParameterError
from nemeses.registry import check_fault

ROWS_MAX = 10_000
ENTRY = Schema(Entry, PlanError)
STRAND = Schema(Strand, PlanError)


def read_rows(
    rows: Sequence[object],
    nodes: tuple[str, ...],
    duration_s: float,
    traced: Collection[str] | None,
) -> tuple[tuple[Entry, ...], tuple[Strand, ...]]:
    """Read and check all rows, for a run of these nodes and this length. Raises PlanError.

    `traced`: the events of the nodes that steps can wait for; None: all.
    """
    if len(rows) > ROWS_MAX:
        raise PlanError(f"schedule must be a list of at most {ROWS_MAX} entries")
    entries: list[Entry] = []
    strands: list[Strand] = []
    for number, row in enumerate(rows):
        place: Place = ("schedule", number)
        if isinstance(row, dict) and "steps" in row:
            strands.append(STRAND.read(row, place=place))
            check_strand(strands[-1], nodes, traced, place)
        else:
            entries.append(ENTRY.read(row, place=place))
            _check_entry(entries[-1], nodes, duration_s, place)
    return tuple(entries), tuple(strands)


def _check_entry(entry: Entry, nodes: tuple[str, ...], duration_s: float, place: Place) -> None:
    where = where_of(place)
    for key, moment_s in (("at_s", entry.at_s), ("for_s", entry.for_s)):
        if moment_s > duration_s:
            most = f"from 0 to {duration_s:g}, the plan's duration_s"
            raise PlanError(f"{where}: {key} must be a number {most}, not {moment_s:g}")
    try:
        for parameters in (entry.parameters, *entry.alternatives):
            check_fault(entry.fault, parameters, nodes)
    except ParameterError as error:
        raise PlanError(f"{where}: {error}") from error


def strand_of(entry: Entry) -> Strand:
    """Rewrite a timed fault as a strand of one step; a strand does not retry a refused fault."""
    parameters = dict(entry.parameters)
    step = Step(
        entry.fault,
        targets=str(parameters.pop("targets", "")),
        for_ms=entry.for_s * 1000.0,
        options=parameters,
    )
    return Strand(entry.at_s * 1000.0, (step,))
