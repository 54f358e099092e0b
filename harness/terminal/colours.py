"""Whether output is coloured and whether it can be redrawn, as the environment asks.

`NO_COLOR` (https://no-color.org) and `TERM=dumb` turn colours off, `FORCE_COLOR` turns them on
where the output is no terminal; without any of them terminals are coloured and files are not. Rich
follows the same variables by itself, click does not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def wants_colour() -> bool | None:
    """Return whether click may colour; None: where the stream is a terminal."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def can_redraw(console: Console) -> bool:
    """Whether a panel or bar can be drawn over itself there: a real terminal that moves its cursor.

    `FORCE_COLOR` makes rich take any file for a terminal, and a log is none.
    """
    return console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
