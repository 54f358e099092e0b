"""Values of operations as they can be compared and counted."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any


def freeze(value: Any) -> Hashable:
    """Return a JSON value as a hashable one; different JSON values stay different.

    Booleans are distinguished from the integers that Python holds equal to them.
    """
    if value is None or type(value) is str or type(value) is int:
        return value
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ("list", tuple(freeze(item) for item in value))
    if isinstance(value, dict):
        items = sorted((str(name), freeze(item)) for name, item in value.items())
        return ("dict", tuple(items))
    assert isinstance(value, Hashable)
    return value
