"""The public corpus: all its histories, judged by ours and by Porcupine."""

from __future__ import annotations

import json
import tarfile
import time
from pathlib import Path
from statistics import median

from benchmarks.checkers import peer
from checkers import load_history, pair
from checkers.linearizability.columnar import judge_columns
from porcupine_py.columns import Columns, from_operations
from porcupine_py.models import model_named

ARCHIVE = Path(__file__).parents[2] / "tests" / "data" / "histories" / "porcupine.tar.gz"
MODELS = {"cas-register": "cas-register", "kv-append": "kv"}


def histories(folder: Path) -> list[tuple[str, str, bool, Columns]]:
    """(name, model, is it right, columns) of every judged history."""
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            if member.isfile():
                kept = folder / member.name
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(archive.extractfile(member).read())
    expected = json.loads((folder / "expected.json").read_text())
    return [
        (name, MODELS[known["model"]], known["valid"], columns_of(folder / known["file"]))
        for name, known in sorted(expected.items())
        if known["valid"] is not None
    ]


def columns_of(path: Path) -> Columns:
    return from_operations(pair(load_history(path)))


def ours(all_: list[tuple[str, str, bool, Columns]]) -> dict[str, float]:
    """Milliseconds by name, medians of five; verdicts are asserted."""
    times = {}
    for name, model, right, columns in all_:
        taken = []
        for _ in range(5):
            begun = time.perf_counter()
            results = judge_columns(columns, model_named(model), certificates=False)
            taken.append(1e3 * (time.perf_counter() - begun))
        statuses = {result.status.value for result in results}
        assert (statuses == {"PASS"}) == right, name
        times[name] = median(taken)
    return times


def theirs(
    all_: list[tuple[str, str, bool, Columns]], binary: Path, folder: Path
) -> dict[str, float]:
    """The same by Porcupine."""
    times = {}
    for name, _, right, columns in all_:
        peer.export(columns, folder / "history.txt")
        run = peer.judge(binary, folder / "history.txt", 30, 4)
        assert (run.verdict == "PASS") == right, name
        assert run.time_ms is not None
        times[name] = run.time_ms
    return times
