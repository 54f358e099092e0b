"""Lone history files, judged without a run around them; imports no more than that needs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from checkers.earned import Floor, Judged, earn
from checkers.history import HistoryError, Operation
from checkers.history.files import ColumnFile, load_judged
from checkers.history.foreign import Reading
from checkers.history.formats import load
from checkers.history.recorded import Recorded
from checkers.linearizability import linearizable
from checkers.linearizability.columnar import check_columns
from checkers.registry import (
    CheckSpec,
    KeyCheck,
    RunInput,
    add_notes,
    check_keys,
    find_check,
    merge,
    never,
    reading_for,
)
from checkers.verdict import CheckResult
from results.judge.check_results import check_each, results_of, write_certificates
from results.store.model import RunResults, counts_of


def judge_file(
    path: Path,
    specs: Sequence[CheckSpec],
    *,
    reading: Reading | None = None,
    certificates: Path | None = None,
    floor: Floor | None = None,
) -> RunResults:
    """Judge a lone history file of any format of `checkers.history.formats`, in this process.

    Nothing is stored but the certificates of the keys, where a path is given, and there is no
    evidence. `reading`: what the caller knows of the file; `floor`: the least that it must show,
    beyond what every file must. Raises HistoryError, CheckError, and
    OSError when the certificates cannot be written.
    """
    reading = reading or Reading()
    began = time.monotonic()
    tried: Sequence[Operation]
    operations: Sequence[Operation]
    found = [find_check(spec) for spec in specs]
    if all(isinstance(check, KeyCheck) for check in found):
        file = load_judged(path, reading_for(found, reading))
        tried, operations, notes = Recorded(file.columns), Recorded(file.judged), file.notes
        run = RunInput([], operations)
    else:
        history = load(path, independent=reading.independent)
        tried = operations = history.operations
        notes, run = history.notes, RunInput(history.events, operations)
    if all(spec.name == linearizable.NAME for spec in specs):
        each, times_s = [], []
        for spec in specs:
            since = time.monotonic()
            each.append(_judge_columns(file, spec, path, certificates))
            times_s.append(time.monotonic() - since)
        checks = [merge(linearizable.NAME, keys) for keys in each]
        proofs = [key for keys in each for key in keys]
    else:
        checks, proofs, times_s = check_each(run, specs, never, check_keys)
    statistics = counts_of(RunInput(run.events, tried))
    checks = [add_notes(check, notes) for check in checks]
    if certificates is not None:
        write_certificates(certificates, proofs)
    wanted = [spec.name for spec in specs]
    lone = Judged(RunInput([], tried), tuple(checks), wanted, None, operations)
    checks.append(earn(replace(lone, floor=floor or Floor())))
    return results_of(path.name, {}, checks, times_s, statistics, spark=None, began=began)


def _judge_columns(
    file: ColumnFile, spec: CheckSpec, path: Path, certificates: Path | None
) -> list[CheckResult]:
    """Judge the keys of a lone file; an operation that the model does not know is a wrong file."""
    if not len(file.judged):
        return []
    try:
        return check_columns(
            file.judged, spec.options, never, certificates=certificates is not None
        )
    except HistoryError as error:
        raise HistoryError("; ".join([f"{path}: {error}", *file.notes])) from error
