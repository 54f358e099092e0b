"""What a check of a whole run is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers.evidence import Evidence
from checkers.evidence.extent import WHOLE, Extent
from checkers.evidence.log_audit import LogAudit, audit_logs
from checkers.history import Event, EventType, Operation
from checkers.history.recorded import Recorded, notes_of
from porcupine_py.columns import FAIL


def asked_for(operations: Sequence[Operation], options: Mapping[str, Any]) -> Sequence[Operation]:
    """Leave out what a check's options `functions` and `refusals` leave to others.

    `refusals` false: that an operation was refused says nothing of the state, since a node that
    lags may have refused it.
    """
    functions = options.get("functions")
    if isinstance(operations, Recorded):
        columns = operations.columns
        wanted = np.ones(len(columns), np.bool_)
        if functions is not None:
            wanted &= columns.calls(*functions)
        if options.get("refusals") is False:
            wanted &= columns.type != FAIL
        return operations.where(wanted)
    if functions is not None:
        operations = [operation for operation in operations if operation.f in functions]
    if options.get("refusals") is False:
        operations = [o for o in operations if o.type is not EventType.FAIL]
    return operations


@dataclass(frozen=True, slots=True)
class RunInput:
    """A run as its store holds it."""

    events: Sequence[Event]
    """The whole journal, nemesis events included, in index order."""
    operations: Sequence[Operation]
    """`history.pair(events)`: client operations in order of invocation."""
    evidence: Evidence | None = None
    """What the nodes left behind, as far as the journal covers it (`evidence.extent.within`); None
    for a history that came without it."""
    extent: Extent = WHOLE
    """How far the journal reaches."""
    audit: LogAudit = audit_logs
    """Compares the nodes' logs, here or elsewhere."""

    @property
    def required_evidence(self) -> Evidence:
        """The evidence, for checks that need it: the registry gives them no run without."""
        assert self.evidence is not None, "the registry asks for evidence first"
        return self.evidence

    @property
    def notes(self) -> Sequence[Event]:
        """The events of the nemesis."""
        return notes_of(self.events)
