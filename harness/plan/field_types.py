"""Fields of documents, as `cluster.schemas` reads them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def mutant_id(name: str) -> str:
    """Return the identifier of a mutant. Raises UnknownMutantError."""
    from cluster.mutants import find  # noqa: PLC0415  (imports the whole node)

    return find(name).id


Version = Annotated[int, Field(strict=True, ge=1, le=1, description="1")]
Nodes = Annotated[int, Field(strict=True, ge=1, le=15)]
Seed = Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
Mutant = Annotated[str, AfterValidator(mutant_id), Field(description="a name such as M15")]


def node_names(count: int) -> tuple[str, ...]:
    """Return n1, n2, ..."""
    return tuple(f"n{number}" for number in range(1, count + 1))
