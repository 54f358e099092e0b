"""What faults see of a test's cluster."""

from __future__ import annotations

import random
from typing import Any

from nemeses.base import Injection


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
