"""Checks by name, so that a plan can say in JSON what judges it.

A workload lists `CheckSpec`s; they are stored in the run's plan; the pipeline looks the names up
here. A check has a scope that says what it is given and how it may run in parallel:

- `key`: the operations of one key; called once for each key, in parallel, then merged.
- `run`: all client operations of a run.
- `evidence`: what the nodes themselves left behind (`checkers.evidence.Evidence`), together with
  all operations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """One check that a plan asks for."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    """JSON-able; for `linearizable`: {"model": "register", "time_limit_s": 60, ...}."""
