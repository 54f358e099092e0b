"""The face for users with only a history file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from checkers.history import Event, Operation, pair
from checkers.history.column_files import load_columns
from checkers.history.columns import Columns
from checkers.history.formats import load_history
from checkers.linearizability import linearizable
from checkers.linearizability.columnar import judge_columns
from checkers.linearizability.encoding import encodable
from checkers.linearizability.rules.arrays import array_rule_for
from checkers.models import Model, model_named
from checkers.registry import merge
from checkers.run_input import Cancelled, never
from checkers.verdict import CheckResult

History = str | Path | Columns | Iterable[Event | Operation]
"""A history file, columns, the events of one, or operations."""


def check(
    history: History,
    model: str | Model,
    *,
    algorithm: str | None = None,
    time_limit_s: float = linearizable.TIME_LIMIT_S,
    memory_limit_mb: float = linearizable.MEMORY_LIMIT_MB,
    cancelled: Cancelled = never,
    independent: bool = False,
) -> CheckResult:
    """Say whether a history is linearizable.

    The history is split by `model.partition` and each part judged by itself, within the limits
    (which hold for each part). One part gives its own result with its certificate; several are
    merged (`checkers.registry.merge`). `algorithm` (`linearizability.dispatch.ALGORITHMS`)
    overrides the choice; `independent` is for Jepsen histories of [key value] tuples.

    Raises HistoryError for a file or history that is not well formed, or has operations that the
    model does not know, and ValueError for an unknown model or algorithm or a senseless limit.
    """
    chosen = model_named(model) if isinstance(model, str) else model
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
    columnar = encodable(chosen) or array_rule_for(chosen) is not None
    if isinstance(history, str | Path) and columnar:
        history = load_columns(history, independent=independent)
    if isinstance(history, Columns):
        results = judge_columns(history, chosen, **limits)
    else:
        parts = chosen.partition(_operations(history, independent=independent))
        results = [linearizable.judge(part, chosen, **limits) for part in parts]
    return results[0] if len(results) == 1 else merge(linearizable.NAME, results)


def _operations(history: History, *, independent: bool) -> list[Operation]:
    if isinstance(history, str | Path):
        return pair(load_history(history, independent=independent))
    items = list(history)
    operations = [item for item in items if isinstance(item, Operation)]
    events = [item for item in items if isinstance(item, Event)]
    if operations and events:
        raise ValueError("a history is made of events or of operations, not of both")
    return operations or pair(events)
