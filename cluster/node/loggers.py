"""The loggers of a node, whose levels clients may read and change while it runs (KIP-412).

There is one, the root: the lines that a node says of itself (started, leads, fenced) are of level
INFO, so WARN silences them. The trace is evidence, not a log, and has no level.
"""

from __future__ import annotations

from typing import Final

ROOT: Final = "root"
LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
"""From the most to the least that is said."""
INFO: Final = "INFO"


class Loggers:
    """The level of each logger; a new start has INFO."""

    def __init__(self) -> None:
        self.levels = {ROOT: INFO}

    def says(self, level: str) -> bool:
        """Whether lines of this level are said."""
        return LEVELS.index(level) >= LEVELS.index(self.levels[ROOT])
