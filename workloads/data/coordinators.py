"""The coordinator of a group or a transactional id, as one process of a workload finds it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from cluster.client.admin_client import Client
from cluster.client.caller import Outcome, Peer
from cluster.client.transactional_client import find_coordinator
from cluster.node.errors import ErrorCode
from cluster.node.ports import Failure
from workloads.data.leads import Budget, Leads, Stopped, node_name

PAUSE_S: Final = 0.02
"""Between two attempts: Kafka's producer waits so long for the transaction before to be over."""
NOT_YET: Final = frozenset(
    {
        ErrorCode.concurrent_transactions.name,
        ErrorCode.coordinator_load_in_progress.name,
        ErrorCode.unstable_offset_commit.name,
    }
)
ELSEWHERE: Final = frozenset(
    {
        ErrorCode.not_coordinator.name,
        ErrorCode.coordinator_not_available.name,
        *(failure.value for failure in (Failure.TIMED_OUT, Failure.DISCONNECTED, Failure.NOT_SENT)),
    }
)
"""After which another coordinator is looked for."""

Share = Callable[[Budget], float]
"""(what is left of an operation) -> how long one request may take, in ms."""
Ask = Callable[[Peer], Awaitable[Outcome]]
"""(a coordinator) -> what it answers."""


class Coordinator:
    """Where one group or transactional id is coordinated. Its methods raise Stopped."""

    def __init__(self, leads: Leads, client: Client, kind: int, key: str, share: Share) -> None:
        """`kind`: GROUP or TRANSACTION."""
        self._leads = leads
        self._client = client
        self._kind = kind
        self._key = key
        self._share = share
        self.node: str | None = None
        """As this process knows it; None: nobody was found yet."""

    async def find(self, budget: Budget) -> str:
        """Return the node that coordinates."""
        while self.node is None:
            asked = self._leads.asked
            peer = self._leads.peer(asked, self._share(budget))
            found = await find_coordinator(self._client, peer, self._kind, self._key)
            if found.type == "ok" and node_name(found.value) in self._leads.brokers:
                self.node = node_name(found.value)
                break
            self._leads.ask_next()
            if budget.over:
                raise Stopped(found.error, asked)
            await asyncio.sleep(PAUSE_S)
        return self.node

    def learn(self, outcome: Outcome) -> None:
        """Look for another node where it was the wrong one."""
        if outcome.error in ELSEWHERE:
            self.node = None

    async def ask(self, ask: Ask, budget: Budget) -> Any:
        """Have the coordinator do, in as many attempts as it takes, what may be done twice."""
        while True:
            node = await self.find(budget)
            outcome = await ask(self._leads.peer(node, self._share(budget)))
            if outcome.type == "ok":
                return outcome.value
            self.learn(outcome)
            if budget.over or outcome.error not in NOT_YET | ELSEWHERE:
                raise Stopped(outcome.error, node)
            await asyncio.sleep(PAUSE_S)
