"""What the annotations of kio's entity classes say: null, array, element."""

from __future__ import annotations

import types
import typing
from typing import Any


def is_optional(annotation: Any) -> bool:
    """Return whether a field may be null."""
    return isinstance(annotation, types.UnionType) and types.NoneType in annotation.__args__


def without_none(annotation: Any) -> Any:
    """Return the type of a field that is not null."""
    if not is_optional(annotation):
        return annotation
    (rest,) = (a for a in annotation.__args__ if a is not types.NoneType)
    return rest


def is_array(annotation: Any) -> bool:
    """Return whether a field is an array, null or not."""
    return typing.get_origin(without_none(annotation)) is tuple


def element(annotation: Any) -> Any:
    """Return the type of a field or, of an array, that of its elements."""
    annotation = without_none(annotation)
    if typing.get_origin(annotation) is tuple:
        return typing.get_args(annotation)[0]
    return annotation
