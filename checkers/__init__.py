"""What a history is, and what makes it right or wrong: pure functions, usable alone.

from checkers import check
result = check("history.jsonl", "register")
print(result.status, result.summary)
"""

if not __debug__:  # by -O or PYTHONOPTIMIZE: a verdict without them could be wrong
    raise ImportError("Kraftprobe's invariants are assertions: run without -O and PYTHONOPTIMIZE")

from checkers.api import check, check_by
from checkers.history import Event, EventType, HistoryError, Operation, pair
from checkers.history.formats import load_history, to_edn
from checkers.verdict import CheckResult, Status
from porcupine_py.models import MODELS, Model, NondeterministicModel

__all__ = [
    "MODELS",
    "CheckResult",
    "Event",
    "EventType",
    "HistoryError",
    "Model",
    "NondeterministicModel",
    "Operation",
    "Status",
    "check",
    "check_by",
    "load_history",
    "pair",
    "to_edn",
]
