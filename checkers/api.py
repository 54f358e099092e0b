"""The face for users with only a history file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkers.history import Event, Operation, pair
from checkers.history.files import load_judged
from checkers.history.foreign import Reading
from checkers.history.formats import load
from checkers.history.recorded import Recorded
from checkers.linearizability import linearizable
from checkers.linearizability.columnar import judge_columns
from checkers.registry import (
    CheckSpec,
    KeyCheck,
    add_notes,
    find_check,
    merge,
    reading_for,
    run_check,
)
from checkers.run_input import RunInput
from checkers.verdict import CheckResult
from porcupine_py.columns import Columns
from porcupine_py.models import Model, model_named
from porcupine_py.search.encoding import encodable
from porcupine_py.search.outcome import Cancelled, never
from porcupine_py.search.rules import RULES

History = str | Path | Columns | Iterable[Event | Operation]
"""A history file, columns, the events of one, or operations."""


def check(
    history: History,
    model: str | Model,
    *,
    initial: Any = None,
    algorithm: str | None = None,
    time_limit_s: float = linearizable.TIME_LIMIT_S,
    memory_limit_mb: float = linearizable.MEMORY_LIMIT_MB,
    cancelled: Cancelled = never,
    independent: bool = False,
    refusals: bool | None = None,
    nil_reads: bool | None = None,
) -> CheckResult:
    """Say whether a history is linearizable.

    The history is split by `model.partition` and each part judged by itself, within the limits
    (which hold for each part). One part gives its own result with its certificate; several are
    merged (`checkers.registry.merge`). `initial` is what is there first, if the model named takes
    such a value. `algorithm` (`linearizability.dispatch.ALGORITHMS`)
    overrides the choice. The last three are for files: `independent` for Jepsen histories of
    [key value] tuples that are not tagged; `refusals` and `nil_reads` say whether failed operations
    and reads of nil show something, which by default journals' do and foreign histories' do not
    (`checkers.history.foreign`); what was left out so is in `statistics["notes"]`.

    Raises HistoryError for a file or history that is not well formed, or has operations that the
    model does not know, and ValueError for an unknown model or algorithm or a senseless limit.
    """
    if initial is not None and not isinstance(model, str):
        raise ValueError("a model that is given has its initial value already")
    chosen = model_named(model, initial) if isinstance(model, str) else model
    if algorithm not in (None, *linearizable.ALGORITHMS):
        raise ValueError(f"unknown algorithm {algorithm!r}")
    if not (time_limit_s > 0 and memory_limit_mb > 0):
        raise ValueError("limits must be above 0")
    limits: dict[str, Any] = {
        "algorithm": algorithm,
        "time_limit_s": time_limit_s,
        "memory_limit_mb": memory_limit_mb,
        "cancelled": cancelled,
    }
    columnar = encodable(chosen) or type(chosen) in RULES
    notes: Sequence[str] = ()
    if isinstance(history, str | Path):
        reading = Reading(independent, refusals, nil_reads)
        file = load_judged(history, reading)
        history, notes = file.judged if columnar else Recorded(file.judged), file.notes
    if isinstance(history, Columns) and columnar:
        results = judge_columns(history, chosen, **limits)
    else:
        parts = chosen.partition(_operations(history))
        results = [linearizable.judge(part, chosen, **limits) for part in parts]
    result = results[0] if len(results) == 1 else merge(linearizable.NAME, results)
    return add_notes(result, notes)


def check_by(
    history: History,
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    reading: Reading | None = None,
    cancelled: Cancelled = never,
) -> CheckResult:
    """Judge a history by a check of the registry that needs nothing else (scope `key` or `run`).

    `check_by("set.edn", "set-full", {"linearizable": True})`: also `transactions`, `sessions`,
    `linearizable`; `checkers.registry` lists their options. `reading`: what the caller knows of a
    foreign file. Keys are judged one by one and merged.

    Raises HistoryError for a file or history that is not well formed, and CheckError (a ValueError)
    for an unknown check or option.
    """
    spec = CheckSpec(name, dict(options or {}))
    chosen = find_check(spec)
    events: Sequence[Event] = ()
    operations: Sequence[Operation]
    notes: Sequence[str] = ()
    reading = reading or Reading()
    if not isinstance(history, str | Path):
        operations = _operations(history)
    elif isinstance(chosen, KeyCheck):
        judged = load_judged(history, reading_for([chosen], reading))
        operations, notes = Recorded(judged.judged), judged.notes
    else:
        file = load(history, independent=reading.independent)
        events, operations, notes = file.events, file.operations, file.notes
    return add_notes(run_check(spec, RunInput(events, operations), cancelled), notes)


def _operations(history: Iterable[Event | Operation]) -> list[Operation]:
    items = list(history)
    operations = [item for item in items if isinstance(item, Operation)]
    events = [item for item in items if isinstance(item, Event)]
    if operations and events:
        raise ValueError("a history is made of events or of operations, not of both")
    return operations or pair(events)
