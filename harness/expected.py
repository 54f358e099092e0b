"""Errors whose message suffices as a report, beside those of `harness.errors` and OSError.

A module of its own, since it imports most of the program: `harness.errors` imports it only when an
error has occurred, so that a command imports no more than it needs.
"""

from __future__ import annotations

from checkers.history import HistoryError
from checkers.registry import CheckError
from cluster.backends.base import BackendError
from cluster.systems.kafka.fetch import FetchError
from cluster.systems.kinds import SettingError
from extensions import ExtensionError
from harness.interpreter import HarnessError
from nemeses.base import ParameterError
from results.files import StoreError
from results.jvm import JvmError
from results.query import QueryError
from results.session import SparkError
from workloads.registry import WorkloadError

EXPECTED = (
    BackendError,
    CheckError,
    ExtensionError,
    FetchError,
    HarnessError,
    HistoryError,
    JvmError,
    ParameterError,
    QueryError,
    SettingError,
    SparkError,
    StoreError,
    WorkloadError,
)
