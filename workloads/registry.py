"""Workloads by name, so that a plan can name them."""

from __future__ import annotations

from collections.abc import Mapping
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

if TYPE_CHECKING:
    from pydantic import BaseModel

    from cluster.schemas import Schema

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
