"""What a kind of fault declares of itself; its `check`, `options` and `probe` follow from that.

A subclass declares its parameters, the targets and variants that a random schedule chooses from,
and the ability that it needs. What two parameters must be together it checks itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from cluster.backends.base import Ability, Probe
from cluster.names import unknown
from nemeses.base import ParameterError, Parameters, View, absence
from nemeses.targets import check_keys, check_target

ABOVE_ZERO = math.ulp(0.0)
"""The least of a number that must be above 0."""


class FaultKind:
    """See the module."""

    name: ClassVar[str]
    target: ClassVar[str | None] = "random"
    """The default of the parameter `targets`; None: it takes none."""
    numbers: ClassVar[Mapping[str, tuple[float, float, float]]] = {}
    """Parameters that are numbers -> (default, least, most)."""
    idle: ClassVar[Mapping[str, float]] = {}
    """The value of a number with which it would do nothing, and seem to have bitten."""
    choices: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Parameters that are one of some words, or true or false -> these, the default first."""
    keys: ClassVar[tuple[str, ...]] = ()
    """Parameters beside all these, which its own `check` looks at."""
    nodes_min: ClassVar[int] = 1
    """A cluster of fewer nodes cannot be hit."""
    favourites: ClassVar[tuple[str, ...]] = ("leader", "random", "minority")
    """Targets that a random schedule chooses from."""
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Other parameters that it chooses from."""
    needs: ClassVar[str] = ""
    """The field of `Abilities` without which it cannot act; empty: it needs none."""
    part: ClassVar[Any] = None
    """What of that ability is probed; None: it has no parts."""
    ability: ClassVar[Ability | None] = None
    """What the backend is asked for instead, where `needs` has nothing to probe."""

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        targets = () if self.target is None else ("targets",)
        check_keys(self.name, parameters, (*targets, *self.numbers, *self.choices, *self.keys))
        if len(nodes) < self.nodes_min:
            raise ParameterError(f"{self.name} needs at least {self.nodes_min} nodes")
        if self.target is not None:
            check_target(parameters.get("targets", self.target), nodes)
        for name, (default, least, most) in self.numbers.items():
            value = parameters.get(name, default)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not least <= value <= most:
                low = "above 0, at most" if least == ABOVE_ZERO else f"from {least:g} to"
                bounds = f"a number {low} {most:g}"
                raise ParameterError(f"{name} of {self.name} must be {bounds}, not {value!r}")
            if value == self.idle.get(name):
                raise ParameterError(f"{name} of {self.name} must not be {value!r}: no effect")
        for name, values in self.choices.items():
            value = parameters.get(name, values[0])
            if values == (False, True):
                if not isinstance(value, bool):
                    line = f"{name} of {self.name} must be true or false, not {value!r}"
                    raise ParameterError(line)
            elif value not in values:
                raise ParameterError(unknown(f"{name} of {self.name}", value, values))

    def number(self, chosen: Mapping[str, Any], name: str) -> float:
        """Read a number of the parameters, or of what was chosen for a node."""
        return float(chosen.get(name, self.numbers[name][0]))

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        if len(nodes) < self.nodes_min:
            return ()
        if not self.favourites:
            return tuple(map(dict, self.variants))
        targets = [t for t in self.favourites if not (t == "minority" and len(nodes) < 3)]
        return tuple({"targets": t, **variant} for t in targets for variant in self.variants)

    async def probe(self, view: View) -> Probe:
        ability: Any = getattr(view.backend.abilities(), self.needs) if self.needs else None
        if self.needs and ability is None:
            return absence(view, self.needs)
        if self.ability is not None:
            return await view.backend.probe(self.ability)
        if not hasattr(ability, "probe"):  # what it needs, if anything, works wherever it is
            return Probe(possible=True)
        parts = () if self.part is None else (self.part,)
        found: Probe = await ability.probe(*parts)
        return found
