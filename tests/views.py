"""What faults see of a test's cluster."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from nemeses.base import Injection, View
from nemeses.drive import heal, inject


class StubView:
    """A view of a fake cluster; the leader is the node that a test names."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.controllers = backend.nodes
        self.bound_s = None
        self.random = random.Random(7)
        self.active: list[Injection] = []
        self.leads: str | None = "n2"

    async def leader(self) -> str | None:
        return self.leads

    async def partition_leader(self) -> str | None:
        return None


async def bite(view: View, fault: str, parameters: Mapping[str, Any]) -> Injection:
    """Inject a fault, which is verified to have bitten."""
    injection = await inject(view, fault, parameters)
    assert injection.verified, injection.detail
    return injection


async def mend(view: View, injection: Injection) -> Injection:
    """Heal a fault, which is verified to be over."""
    healed = await heal(view, injection)
    assert healed.verified, healed.detail
    return healed


async def refusal(view: View, fault: str, parameters: Mapping[str, Any]) -> object:
    """The reason for which a fault is not applied."""
    injection = await inject(view, fault, parameters)
    assert not injection.applied
    return injection.detail["reason"]
