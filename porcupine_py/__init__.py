"""Porcupine's linearizability checker for Python: models as functions, histories, one answer.

from porcupine_py import Model, Operation, check_operations

register = Model(
    init=lambda: 0,
    step=lambda state, write, read: (read == state, state) if write is None else (True, write),
)
history = [Operation(0, 1, 0, None, 10), Operation(1, None, 20, 1, 30)]
assert check_operations(register, history)

The vocabulary is that of Porcupine (https://github.com/anishathalye/porcupine), in Python's
spelling. Operations in Jepsen's words (`operations`), ready models for them (`models`), near-linear
rules, searches and their proofs (`search`, `kernels`) are what Kraftprobe's checkers rest on.
"""

if not __debug__:  # by -O or PYTHONOPTIMIZE: an answer without them could be wrong
    raise ImportError("Kraftprobe's invariants are assertions: run without -O and PYTHONOPTIMIZE")

from porcupine_py.checking import (
    CheckResult,
    LimitExceededError,
    check_events,
    check_events_timeout,
    check_events_verbose,
    check_operations,
    check_operations_timeout,
    check_operations_verbose,
)
from porcupine_py.history import PENDING, Event, EventKind, Operation
from porcupine_py.linearization import LinearizationInfo, PartInfo
from porcupine_py.model import Model, NondeterministicModel, partition_by, partition_event_by
from porcupine_py.operations import HistoryError
from porcupine_py.states import ModelError
from porcupine_py.visualization import visualize, visualize_path

__all__ = [
    "PENDING",
    "CheckResult",
    "Event",
    "EventKind",
    "HistoryError",
    "LimitExceededError",
    "LinearizationInfo",
    "Model",
    "ModelError",
    "NondeterministicModel",
    "Operation",
    "PartInfo",
    "check_events",
    "check_events_timeout",
    "check_events_verbose",
    "check_operations",
    "check_operations_timeout",
    "check_operations_verbose",
    "partition_by",
    "partition_event_by",
    "visualize",
    "visualize_path",
]
