"""Fields of documents, as `cluster.schemas` reads them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from checkers.history.json_text import is_json
from cluster.schemas import Place, render, where_of
from harness.errors import PlanError


def mutant_id(name: str) -> str:
    """Return the identifier of a mutant. Raises UnknownMutantError."""
    from cluster.mutants import find  # noqa: PLC0415  (imports the whole node)

    return find(name).id


def _json(value: object) -> object:
    if not is_json(value):
        raise ValueError(f"must be what JSON has, not {render(value)}")
    return value


def check_moment(place: Place, key: str, moment: float, end: float) -> None:
    """Refuse what would come when the fault phase is over: never. Raises PlanError."""
    if moment >= end:
        before = f"{key} must be below {end:g}, where the plan's duration_s ends"
        raise PlanError(f"{where_of(place)}: {before}, not {moment:g}")


Json = Annotated[Any, AfterValidator(_json)]
"""TOML has dates as well, and numbers that are not finite: no journal and no stored plan has."""
Version = Annotated[int, Field(strict=True, ge=1, le=1, description="1")]
Nodes = Annotated[int, Field(strict=True, ge=1, le=15)]
Seed = Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
Mutant = Annotated[str, AfterValidator(mutant_id), Field(description="a name such as M15")]


def node_names(count: int) -> tuple[str, ...]:
    """Return n1, n2, ..."""
    return tuple(f"n{number}" for number in range(1, count + 1))
