"""Mechanical mutants that no world of the simulation can tell from the true node, each with why."""

from __future__ import annotations

from typing import Final

EQUIVALENT: Final[dict[str, str]] = {}
"""Id -> the argument."""
