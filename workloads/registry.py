"""Workloads by name, so that a plan can name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from cluster.names import unknown
from extensions import Registry
from workloads import (
    append,
    appends,
    brokers,
    grow_set,
    partitions,
    reconfig,
    register,
    topics,
    unique_ids,
)
from workloads.base import Choice, Workload, WorkloadKind
from workloads.data import groups, log, transactions
from workloads.keyed import Plain

if TYPE_CHECKING:
    from pydantic import BaseModel

    from cluster.schemas import Place, Schema

WORKLOADS = Registry(
    "kraftprobe.workloads",
    WorkloadKind,
    (
        register.KIND,
        reconfig.KIND,
        append.KIND,
        topics.KIND,
        grow_set.KIND,
        partitions.KIND,
        unique_ids.KIND,
        brokers.KIND,
        log.KIND,
        transactions.KIND,
        groups.KIND,
        appends.KIND,
    ),
)


class WorkloadError(ValueError):
    """A plan asks for a workload or an option that does not exist; one line."""


def workload_named(name: str, options: Mapping[str, Any]) -> Workload:
    """Make a workload. Raises WorkloadError, with the nearest name where one is unknown."""
    if name not in WORKLOADS:
        raise WorkloadError(f"workload: {unknown('workload', name, WORKLOADS)}")
    read = _schema(name).read(dict(options), place=("workload_options",))
    values: dict[str, Any] = read.model_dump()
    return WORKLOADS[name].create(values)


def check_operations(
    workload: Workload, listed: Iterable[tuple[Place, str, Mapping[str, Any]]]
) -> None:
    """Refuse operations that the workload's clients would not perform as they say.

    `listed`: for each its place, its name, and its key and value. Raises WorkloadError.
    """
    shapes = workload.shapes() if isinstance(workload, Plain) else None
    if shapes is None:
        return  # of a package, whose client refuses what it does not know
    from pydantic import ConfigDict, create_model  # noqa: PLC0415

    from cluster.schemas import Schema, where_of  # noqa: PLC0415

    schemas: dict[str, Schema[Any]] = {}
    for place, f, said in listed:
        given = {part: value for part, value in said.items() if value is not None}
        if f not in shapes:
            line = unknown("operation", f[:80], shapes)
            raise WorkloadError(f"{where_of(place)}: f: {line} of workload {workload.name}")
        for part in given.keys() - shapes[f].keys():
            raise WorkloadError(f"{where_of(place)}: {f} of workload {workload.name} has no {part}")
        if f not in schemas:
            fields: dict[str, Any] = {
                part: type_ if isinstance(type_, tuple) else (type_, ...)
                for part, type_ in shapes[f].items()
            }
            model: Any = create_model(f, __config__=ConfigDict(strict=True), **fields)
            schemas[f] = Schema(model, WorkloadError)
        schemas[f].read(given, place=place)


@cache
def _schema(workload: str) -> Schema[BaseModel]:
    """Return what the options of a workload may be."""
    # Whoever lists workloads needs no library that checks options.
    from pydantic import Field, create_model  # noqa: PLC0415

    from cluster.schemas import Schema  # noqa: PLC0415

    options: dict[str, Any] = {}
    for name, option in WORKLOADS[workload].options.items():
        if isinstance(option, Choice):
            options[name] = (Literal[option.choices], option.default)
            continue
        bounds = Field(option.default, strict=True, ge=option.minimum, le=option.maximum)
        options[name] = (type(option.default), bounds)
    return Schema(create_model(workload, **options), WorkloadError)
