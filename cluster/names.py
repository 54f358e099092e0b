"""Help with names that are not known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_NEAR = 0.61
"""As alike names must be: `at` and `at_s` are; `targts` and `at_s`, 0.6, are not."""


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """One line about an unknown name: the nearest known one if it is near, and all of them."""
    names = sorted(known)
    parts = [one for one in names if str(name).lower() in one.split("-")]
    parts = parts or [one for one in names if _plain(one) == _plain(str(name))]
    # Who asks for "kafka" means "apache-kafka", though "kraft" is spelled more alike.
    near = parts or difflib.get_close_matches(str(name), names, n=1, cutoff=_NEAR)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {name!r}{hint} (known: {', '.join(names)})"


def _plain(name: str) -> str:
    """Return a name in lower case, its numbers without zeros in front: M9 means M09."""
    return re.sub(r"(?<!\d)0+(?=\d)", "", name.lower())
