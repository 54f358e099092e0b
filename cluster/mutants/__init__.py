"""Seeded protocol bugs, to prove that the checks find them.

A mutant replaces a few methods of the node's classes, or functions, by a faulty variant. It is
loaded by the option `--mutant` alone and named in the node's trace, in the verdict and in the
report: `python -m cluster.mutants ID --config FILE` runs a faulty node as `python -m cluster.node`
runs a correct one, which knows nothing of mutants. The ids and what each breaks follow the
literature's and Kafka's own bugs: `K..` have the number of the issue in JIRA, `L..` break progress,
`W..` believe wall clocks, `V..` are bugs that this node once had, `I..` break one invariant on
almost any run. `X:` and a place of the node's code is a mechanical change of that place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.mutants import (
    catalogue,
    disks,
    invariants,
    kafka_controller,
    kafka_raft,
    kafka_replicas,
    partitions,
    quorum,
)
from cluster.mutants.mechanical import PREFIX, layer_of, mechanical_mutant
from cluster.mutants.mutations import Mutant, Patch
from cluster.names import unknown

__all__ = ["MUTANTS", "Mutant", "Patch", "UnknownMutantError", "apply", "apply_mutant", "find"]


class UnknownMutantError(ValueError):
    """No mutant has this id; the message names the nearest."""


def find(mutant_id: str) -> Mutant:
    """The mutant of an id, in any case. Raises UnknownMutantError."""
    if mutant_id.startswith(PREFIX):
        mutant = mechanical_mutant(mutant_id)
        if mutant is None:
            raise UnknownMutantError(f"the node's code has no place {mutant_id!r:.200}")
        return mutant
    mutant = MUTANTS.get(mutant_id.upper())
    if mutant is None:
        raise UnknownMutantError(unknown("mutant", mutant_id.upper(), MUTANTS))
    return mutant


def apply(mutant_id: str) -> Mutant:
    """Make this process's node faulty, for good. Raises UnknownMutantError."""
    mutant = find(mutant_id)
    for patch in mutant.patches:
        setattr(patch.owner, patch.name, patch.value)
    _forget()
    return mutant


def _forget() -> None:
    """Empty the caches of functions: what they hold was computed by other code."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("cluster.node.") and layer_of(name) != "other":
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


@contextmanager
def apply_mutant(mutant_id: str) -> Iterator[Mutant]:
    """Make all nodes of this process faulty for a while."""
    mutant = find(mutant_id)
    before = [patch.before() for patch in mutant.patches]
    try:
        yield apply(mutant_id)
    finally:
        for patch, value in zip(mutant.patches, before, strict=True):
            setattr(patch.owner, patch.name, value)
        _forget()


_MODULES = (
    catalogue,
    quorum,
    partitions,
    disks,
    invariants,
    kafka_controller,
    kafka_raft,
    kafka_replicas,
)

MUTANTS: dict[str, Mutant] = {
    mutant.id: mutant
    for mutant in sorted(
        (mutant for module in _MODULES for mutant in module.ALL), key=lambda m: m.id
    )
}
"""By id, in order."""
