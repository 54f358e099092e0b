"""Porcupine, fetched as a Go module and run as a process of its own under limits."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from porcupine_py.columns import FAIL, INFO, OK, Columns

MODULE = "github.com/anishathalye/porcupine"
_ROWS_AT_ONCE = 1_000_000
FUNCTIONS = {"read": 0, "write": 1, "cas": 2, "get": 3, "put": 4, "append": 5}


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of one history."""

    verdict: str
    """PASS, FAIL, `?` (time limit), OOM."""
    time_ms: float | None
    """Median of wall time."""
    cpu_ms: float | None
    """Median of processor time, over all of its threads."""
    peak_mb: int | None


def build(folder: Path) -> Path | None:
    """Fetch the module and build the judge; None where there is no Go, or no way to fetch."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        return None
    shutil.copy(Path(__file__).parent / "porcupine" / "main.go", folder)
    for command in (["mod", "init", "judge"], ["get", MODULE], ["build", "-o", "judge", "."]):
        done = subprocess.run(
            [go, *command], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"no Porcupine: go {' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
            return None
    return folder / "judge"


def version(folder: Path) -> str:
    """Return the version that was fetched."""
    lines = (folder / "go.mod").read_text().splitlines()
    required = [line.split() for line in lines if MODULE in line]
    return next((word for words in required for word in words if word[:1] == "v"), "?")


def export(columns: Columns, path: Path) -> None:
    """Write what Porcupine needs: indeterminate reads and plain failures are left out."""
    names = np.array([FUNCTIONS[name] for name in columns.functions])
    f = names[columns.f]
    kept = (columns.type == OK) | ((columns.type == INFO) & (f != 0) & (f != 3))
    kept |= (columns.type == FAIL) & (f == 2)
    text = 3 in names or 4 in names
    with path.open("w") as out:
        out.write("text\n" if text else "int\n")
        rows = np.flatnonzero(kept)
        for part in np.array_split(rows, 1 + len(rows) // _ROWS_AT_ONCE):
            _write(columns, part, f, out, text=text)


def _write(
    columns: Columns, rows: NDArray[np.intp], f: NDArray[np.int64], out: TextIO, *, text: bool
) -> None:
    if text:
        quoted = [json.dumps(v or "") for v in columns.values]
        given = [quoted[c] for c in columns.input[rows]]
        shown = [quoted[c] for c in columns.output[rows]]
    else:
        given, shown = columns.input[rows].tolist(), columns.output[rows].tolist()
    fields = zip(
        columns.process[rows].tolist(),
        columns.key[rows].tolist(),
        f[rows].tolist(),
        given,
        columns.expected[rows].tolist(),
        shown,
        columns.type[rows].tolist(),
        columns.invoke_ns[rows].tolist(),
        columns.complete_ns[rows].tolist(),
        strict=True,
    )
    out.writelines("\t".join(map(str, line)) + "\n" for line in fields)


def judge(binary: Path, history: Path, time_limit_s: float, memory_limit_gb: float) -> Run:
    """Run it; its memory is bounded by the system, so that the machine survives."""
    limit = int(memory_limit_gb * (1 << 30))
    command = [binary, history, str(time_limit_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # Set from outside: it takes a moment to load its history, and this one takes none.
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (limit, limit))
    try:
        out, _ = process.communicate(timeout=5 * time_limit_s + 60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Run("?", None, None, None)
    if process.returncode:
        return Run("OOM", None, None, None)
    answer = json.loads(out)
    verdict = {"Ok": "PASS", "Illegal": "FAIL"}.get(answer["verdict"], "?")
    known = verdict != "?"
    wall, cpu = (median(answer[name]) if known else None for name in ("times_ms", "cpu_ms"))
    return Run(verdict, wall, cpu, answer["peak_mb"])


def load_average() -> float:
    return os.getloadavg()[0]
