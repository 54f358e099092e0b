"""Hypothesis strategies for kio's entities, from their schemas."""

import dataclasses
import datetime as dt
import uuid
from functools import cache
from typing import Any

from hypothesis import strategies as st

from cluster.node.errors import ErrorCode
from cluster.node.wire.schema import element, is_array, is_optional

_PRIMITIVES = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=8),
    "records": st.binary(max_size=32),
    "bytes": st.binary(max_size=32),
    "uuid": st.none() | st.uuids().filter(lambda u: u != uuid.UUID(int=0)),
    "error_code": st.sampled_from(list(ErrorCode)),
    "datetime_i64": st.integers(0, 2**40).map(
        lambda ms: dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=ms)
    ),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: dt.timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(0, 2**40).map(lambda ms: dt.timedelta(milliseconds=ms)),
}


@cache
def entities(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Any value of a kio entity that its version can carry."""
    return st.builds(cls, **{f.name: _field(f) for f in dataclasses.fields(cls)})


def _field(field: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    inner = element(field.type)
    if dataclasses.is_dataclass(inner):
        value = entities(inner)
    else:
        value = _PRIMITIVES[field.metadata["kafka_type"]]
    if is_array(field.type):
        value = st.lists(value, max_size=2).map(tuple)
    if is_optional(field.type) and "tag" not in field.metadata:
        value = st.none() | value
    return value
