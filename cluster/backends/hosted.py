"""Backends with a host for each node: everything that does not depend on the provider of hosts.

See `cluster.backends.hosts` for what a provider brings. `netns`, `docker` and `ssh` are this class
with another provider.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from cluster.backends.abilities import Abilities, Host
from cluster.backends.base import Ability, BackendError, Link, LinkMeasure, NodeState, Probe
from cluster.backends.hosts import (
    NODE_OUTPUT,
    AgentHost,
    HostPorts,
    HostProvider,
    StartedProcess,
    all_of,
)
from cluster.backends.links.probe import LinkProber
from cluster.backends.links.rules import LinkRules
from cluster.backends.links.shaping import HostShaping
from cluster.backends.machine.equip import equip
from cluster.backends.processes.lifecycle import ProcessBackend
from cluster.backends.processes.probe import PROBE_OUTPUT, probe_place
from cluster.backends.processes.records import labels
from cluster.backends.terms import Need
from cluster.node.ports import Endpoint
from cluster.systems.base import Placement, System

_SHARED = "others use the nodes' hosts: no further port is known to be free"


class HostedBackend(ProcessBackend):
    """See `cluster.backends.base.Backend`. Nothing happens before `up`.

    `needs`: as of `cluster.backends.machine.equip`.
    """

    def __init__(
        self,
        provider: HostProvider,
        system: System,
        run_folder: Path,
        node_count: int,
        run_id: str,
        *,
        needs: Collection[Need] = (),
    ) -> None:
        super().__init__(system, run_folder, node_count, run_id)
        self.name = provider.name
        self.provider = provider
        self.hosts: Mapping[str, AgentHost] = {}
        """By node, once `up` has made them."""
        self._needs = needs
        self._abilities = Abilities()
        self.shaping: HostShaping | None = None
        """Links that lose and delay, once `up` has made the hosts."""
        self._rules: LinkRules | None = None
        self._prober: LinkProber | None = None
        self._released = False
        self._probed: dict[Ability, Probe] = {}
        self.before_start.append(self._restore_host)

    async def probe(self, ability: Ability) -> Probe:
        """See `Backend.probe`; each ability is tried once."""
        if ability not in self._probed:
            self._probed[ability] = await probe_place(self, ability)
        return self._probed[ability]

    async def start_beside(self, node: str, arguments: Sequence[str]) -> StartedProcess:
        command = (self.hosts[node].interpreter, *arguments)
        return await self.provider.start(node, command, labels(self.run_id), PROBE_OUTPUT)

    async def cut_links(self, links: Iterable[Link]) -> None:
        await self.rules.cut(links)

    async def restore_links(self, links: Iterable[Link]) -> None:
        await self.rules.restore(links)

    def links_cut(self) -> frozenset[Link]:
        return frozenset() if self._rules is None else self._rules.links_cut()

    async def measure_link(self, link: Link, timeout_s: float = 0.5) -> LinkMeasure:
        """See `Backend.measure_link`. The probes are packets of the nodes' hosts."""
        by_source, by_target = await asyncio.gather(
            self.prober.passes(link, timeout_s, as_answer=False),
            self.prober.passes(link, timeout_s, as_answer=True),
        )
        return LinkMeasure(by_source, by_target, await self.rules.bytes_since_cut(link))

    async def wait_until_lost(self) -> str:
        return await self.provider.wait_until_lost()

    async def read_trace(self, node: str, offset: int) -> bytes:
        source = self.system.trace_source(PurePath())
        return await self.provider.read_from(node, source, offset)

    def abilities(self) -> Abilities:
        """See `Backend.abilities`; without any before `up`."""
        return self._abilities

    @property
    def rules(self) -> LinkRules:
        """The hosts' packet filters."""
        assert self._rules is not None, "the cluster is up"
        return self._rules

    @property
    def prober(self) -> LinkProber:
        """What measures links."""
        assert self._prober is not None, "the cluster is up"
        return self._prober

    async def change_address(self, node: str) -> None:
        """See `cluster.backends.abilities.Addresses`: the next port that nothing of it uses."""
        if (state := await self.state(node)) is not NodeState.DEAD:
            raise BackendError(f"{node} cannot listen elsewhere: it is {state}")
        used = [place.port for (name, _), place in self._endpoints.items() if name == node]
        now = self.endpoint(node, "CONTROLLER")
        port = max(*used, self.provider.ports(node).agent) + 1
        self._endpoints[node, "CONTROLLER"] = replace(now, port=port)
        await all_of(self.configure(each) for each in self.nodes)

    # -- ProcessBackend --------------------------------------------------------------------------

    async def _start_all(self) -> None:
        self.hosts = await self.provider.create(self.nodes)
        assert set(self.hosts) == set(self.nodes), "a host for every node"
        self._rules = LinkRules(self.hosts, self.run_id)
        self._prober = LinkProber(self.provider, self.hosts)
        self.shaping = HostShaping(self.hosts, self.run_id, self._prober)
        self.before_start.append(self.shaping.ensure)
        self._abilities = self._equip()
        await all_of((self._rules.install(), self._prober.start(), self._configure_all()))
        await all_of(self.start(node) for node in self.nodes)

    async def _put(self, node: str, files: Mapping[str, bytes]) -> None:
        await self.provider.put(node, files)

    async def _launch(
        self, node: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> StartedProcess:
        return await self.provider.start(node, command, environment, NODE_OUTPUT)

    async def connect(self, endpoint: Endpoint) -> socket.socket:
        return await self.provider.connect(endpoint.host, endpoint.port)

    async def _before_goodbye(self) -> None:
        # Or no leader could say goodbye; and hosts that outlive the run keep nothing of it.
        try:
            if self.shaping is not None:
                await self.shaping.remove()
        finally:
            if self._rules is not None:
                await self._rules.remove()

    async def _release(self) -> None:
        if self._released:
            return
        self._released = True
        try:
            try:
                await all_of(
                    self.provider.fetch(node, self.node_folder(node)) for node in self.hosts
                )
            finally:
                await self.provider.tear_down()
        except asyncio.CancelledError:
            self.provider.abandon()
            raise

    # -- parts -----------------------------------------------------------------------------------

    def _equip(self) -> Abilities:
        """Return what can be done to the hosts, which are there."""
        alone = all(self.provider.ports(node) == HostPorts() for node in self.nodes)
        abilities = Abilities(
            shaping=self.shaping,
            addresses=self if alone else None,
            missing={} if alone else {"addresses": _SHARED},
        )
        machines = self._machines()
        return equip(self, machines, self._needs, abilities, self.provider.clock_library)

    def _machines(self) -> Mapping[str, Host]:
        return self.hosts

    async def _configure_all(self) -> None:
        for node in self.nodes:
            address, ports = self.hosts[node].address, self.provider.ports(node)
            number = int(node[1:])
            self._endpoints[node, "CLIENT"] = Endpoint(number, address, ports.client)
            self._endpoints[node, "CONTROLLER"] = Endpoint(number, address, ports.controller)
            free = max(ports.client, ports.controller, ports.agent) + 1
            for port, name in enumerate(self.system.ports, free):
                self._endpoints[node, name] = Endpoint(number, address, port)
        await all_of(self.configure(node) for node in self.nodes)

    def _placement(self, node: str) -> Placement:
        host = self.hosts[node]
        return replace(super()._placement(node), folder=host.folder, interpreter=host.interpreter)

    async def _restore_host(self, node: str) -> Mapping[str, str]:
        await self.rules.ensure(node)
        await self.prober.ensure(node)
        return {}
