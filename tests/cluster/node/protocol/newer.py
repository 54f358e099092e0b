"""Entities of a client newer than ours: the same, with tagged fields that we do not know."""

import dataclasses
from functools import cache
from typing import Any

from kio.static.primitive import i64

from cluster.node.wire.schema import element, is_array, is_optional

CONSTANTS = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")


@cache
def newer(cls: Any) -> Any:
    """A class as a later Kafka might have it: a known tag's neighbours and a far one, everywhere."""
    old = [
        (f.name, f.type, dataclasses.field(metadata=f.metadata, default=f.default))
        for f in dataclasses.fields(cls)
    ]
    added = [
        (
            "added_text",
            str,
            dataclasses.field(metadata={"kafka_type": "string", "tag": 77}, default=""),
        ),
        (
            "added_number",
            i64,
            dataclasses.field(metadata={"kafka_type": "int64", "tag": 300}, default=0),
        ),
        (
            "added_numbers",
            tuple[i64, ...],
            dataclasses.field(metadata={"kafka_type": "int64", "tag": 2**31 - 1}, default=()),
        ),
    ]
    constants = {name: getattr(cls, name) for name in CONSTANTS if hasattr(cls, name)}
    retyped = [(name, _retyped(type_), field) for name, type_, field in old]
    return dataclasses.make_dataclass(
        cls.__name__, [*retyped, *added], namespace=constants, frozen=True, kw_only=True
    )


def _retyped(annotation: Any) -> Any:
    inner = element(annotation)
    if not dataclasses.is_dataclass(inner):
        return annotation
    if is_array(annotation):
        return tuple[newer(inner), ...]
    return newer(inner) | None if is_optional(annotation) else newer(inner)


def as_newer(entity: Any, text: str) -> Any:
    """The same values, and something in each field that was added."""
    cls = newer(type(entity))
    values = {}
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            value = tuple(as_newer(item, text) for item in value)
        elif dataclasses.is_dataclass(value):
            value = as_newer(value, text)
        values[field.name] = value
    return cls(**values, added_text=text, added_number=1, added_numbers=(1, 2, 3))
