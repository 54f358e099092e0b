"""The verbs of strands. A step is either a fault (`nemeses`) or one of these verbs.

| verb | does | options |
|---|---|---|
| `wait` | nothing but wait for its time and `until` | |
| `cast` | gives names to nodes: `{"A": "leader", "B": "follower"}`, used as `@A` from then on | `names` |
| `op` | lets a client perform the operation `f`, `key`, `value` at `targets` (without any, or where they name no node now: the supposed leader) | `id`, `f`, `key`, `value` |
| `expect` | checks that `that` holds within `within_ms`, and then for `for_ms` | `that`, `property` |
| `heal` | heals all faults, or those of the kinds `fault` at `targets` | `fault` |
| `release` | delivers the messages that `hold` keeps on `links` (default: all) and ends the hold there | `links` |

Every other step is a fault by its name, with its parameters beside the step's own fields; its
`targets` and `links` may use cast names and target words. It is in force for `for_ms`, or until a
`heal`, at the latest until the end of the fault phase.
"""

# ruff: noqa: E501  (the table)

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, create_model

from cluster.names import unknown
from cluster.schemas import Schema, Text, render
from harness.errors import PlanError
from harness.plan.field_types import Json
from nemeses.links.grudges import ends_of
from nemeses.registry import FAULTS

TARGETS = ("leader", "follower", "followers", "random", "minority", "majority", "all")
"""Target words of an `op`, a `heal`, a `cast`, beside `@NAME` and `node:n2`."""


def takes_targets(kind: str) -> bool:
    """Whether a step of this kind acts at `targets`."""
    return kind in ("op", "heal") or is_fault(kind)


def _plain(value: object) -> object:
    if not isinstance(value, str | int | dict | None) or isinstance(value, bool):
        raise ValueError(f"must be a string, a whole number or a table, not {render(value)}")  # noqa: TRY004  (pydantic's)
    return value


def _faults(text: str) -> str:
    for name in filter(None, text.split(",")):
        if name not in FAULTS:
            raise ValueError(unknown("fault", name, FAULTS))
    return text


def _links(text: str) -> str:
    list(ends_of(text))
    return text


_NAMES = Annotated[
    dict[Text, Text], Field(min_length=1, description="names of nodes, such as {A = 'leader'}")
]
_TABLE = Annotated[
    dict[str, Any], Field(min_length=1, description="a condition that says something")
]

VERBS: Mapping[str, Mapping[str, tuple[Any, Any]]] = {
    "wait": {},
    "cast": {"names": (_NAMES, ...)},
    "op": {
        "id": (Text, ""),
        "f": (Text, "write"),
        "key": (Text | None, None),
        "value": (Annotated[Json, AfterValidator(_plain)], None),
    },
    "expect": {"that": (_TABLE, ...), "property": (Text, "expectation")},
    "heal": {"fault": (Annotated[Text, AfterValidator(_faults)], "")},
    "release": {"links": (Annotated[Text, AfterValidator(_links)], "")},
}
"""Verb -> its options, each with its type for pydantic and its default."""


def takes_for(kind: str) -> bool:
    """Whether a step of this kind takes `for_ms`."""
    return kind == "expect" or is_fault(kind)


def is_fault(kind: str) -> bool:
    """Whether a step of this kind is a fault."""
    return kind in FAULTS


@cache
def options_of(verb: str) -> Schema[BaseModel]:
    """Return the schema of a verb's options."""
    return Schema(create_model(verb, **VERBS[verb]), PlanError)  # type: ignore[call-overload]
