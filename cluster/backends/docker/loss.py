"""Containers that are killed whole, and come back with all that was in force in them."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.backends.base import BackendError, NodeState, Probe
from cluster.backends.docker.docker_hosts import DockerProvider
from cluster.backends.hosted import HostedBackend

_TABLE = ("inet", "kraftprobe_probe")


class ContainerLoss:
    """See `cluster.backends.abilities.HostLoss`."""

    def __init__(self, backend: HostedBackend, provider: DockerProvider) -> None:
        self._backend = backend
        self._provider = provider

    async def probe(self) -> Probe:
        """Kill a container that has a rule, with its node, and see it come back without the rule.

        For clusters that nobody uses yet; takes the last node's.
        """
        node = self._backend.nodes[-1]
        host = self._backend.hosts[node]
        try:
            added = await host.run(("nft", "add", "table", *_TABLE))
            await self.lose(node)
            away = not await self.is_there(node)
            await self._provider.bring_back(node)
            lost = await host.run(("nft", "list", "table", *_TABLE))
        except (OSError, BackendError) as error:
            return Probe(possible=False, reason=str(error))
        if added.exit_code == 0 and away and lost.exit_code != 0:
            return Probe(possible=True)
        return Probe(possible=False, reason="a killed container does not come back as a new one")

    async def lose(self, node: str) -> None:
        """See `HostLoss.lose`."""
        if not await self.is_there(node):
            return
        if await self._backend.state(node) is not NodeState.DEAD:
            self._backend.expect_kill(node)
        await self._provider.lose(node)
        if await self._backend.state(node) is not NodeState.DEAD:
            raise BackendError(f"{node} outlived its container")

    async def bring_back(self, node: str) -> None:
        """See `HostLoss.bring_back`."""
        if not await self.is_there(node):
            await self._provider.bring_back(node)
        await self._backend.host_returned(node)

    async def is_there(self, node: str) -> bool:
        """See `HostLoss.is_there`."""
        return await self._provider.is_there(node)

    async def ensure(self, node: str) -> Mapping[str, str]:
        """Bring the container back before its node starts, if nobody has; for `before_start`."""
        if not await self.is_there(node):
            await self._provider.bring_back(node)
        return {}
