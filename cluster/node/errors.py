"""Kafka's protocol error codes (kio's, from `Errors.java`), and what an error says of itself."""

from __future__ import annotations

import traceback
from pathlib import PurePath

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode"]


def reason_of(error: BaseException) -> str:
    """Return one line: type and message; where it was raised when it has none.

    A bare assertion would otherwise not distinguish one broken invariant from another.
    """
    text = str(error)
    if text or error.__traceback__ is None:
        return f"{type(error).__name__}: {text}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{PurePath(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__}: in {frame.name} ({place})"
