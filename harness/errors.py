"""Which exceptions are a user's or the environment's business: one line, no traceback."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir

from checkers.history import HistoryError
from checkers.registry import CheckError
from cluster.backends.base import BackendError
from cluster.systems.kraft import SettingError
from harness.interpreter import HarnessError
from harness.plan_schedule import PlanError
from harness.sim.errors import BatchError, ScenarioError
from nemeses.base import ParameterError
from results.files import StoreError
from results.jvm import JvmError
from results.session import SparkError
from workloads.registry import WorkloadError


class UsageError(Exception):
    """What was asked for cannot be done; one line says why."""


class ImpossibleError(UsageError):
    """A plan asks for what cannot work here; one line for each of its faults."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)


EXPECTED = (
    BackendError,
    BatchError,
    CheckError,
    HarnessError,
    HistoryError,
    JvmError,
    ParameterError,
    PlanError,
    ScenarioError,
    SettingError,
    SparkError,
    StoreError,
    UsageError,
    WorkloadError,
)
"""Each of these says all there is to say in its message."""

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def one_line(error: BaseException) -> str:
    """Render an error as one line, whatever its message holds."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def save_traceback(error: BaseException) -> Path:
    """Write the traceback of an error that nobody expected to a file, and say where."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    path = Path(gettempdir()) / f"kraftprobe-error-{stamp}.txt"
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return path
