"""A network of a run's own: a labelled bridge with a subnet that nobody here uses."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import docker
from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool

from cluster.backends.base import BackendError
from cluster.values import valueclass

_ROUTES = Path("/proc/net/route")
_POOLS = ("10.96.0.0/11", "172.20.0.0/14", "192.168.128.0/17")
"""Private (RFC 1918) ranges that engines, clouds and homes use least."""
_PREFIX = 24
_TRIES = 50
_FIRST_NODE = 10


@valueclass
class Network:
    """As it was made."""

    name: str
    subnet: ipaddress.IPv4Network

    def address(self, node: str) -> str:
        """The fixed address of a node, n1 at .11 of the subnet; .1 is the bridge's, and so ours."""
        return str(self.subnet.network_address + _FIRST_NODE + int(node[1:]))


def make_network(client: docker.DockerClient, name: str, labels: Mapping[str, str]) -> Network:
    """Make it. Raises BackendError when no subnet is free, and what the SDK raises."""
    refused = ""
    for subnet in _free_subnets():
        pool = IPAMPool(subnet=str(subnet), gateway=str(subnet.network_address + 1))
        try:
            client.networks.create(
                name,
                driver="bridge",
                ipam=IPAMConfig(pool_configs=[pool]),
                labels=dict(labels),
                check_duplicate=True,
            )
        except APIError as error:
            refused = str(error.explanation or error)
            if "overlap" not in refused.lower():
                raise
            continue  # another campaign was faster, or the engine knows of more than the routes
        return Network(name, subnet)
    raise BackendError(f"no free private subnet found for a docker network: {refused}")


def _free_subnets() -> Iterator[ipaddress.IPv4Network]:
    """Yield subnets that no route of this machine touches, at random, but never for ever."""
    taken = routed_networks(_ROUTES.read_text(encoding="ascii"))
    candidates = [
        subnet
        for pool in _POOLS
        for subnet in ipaddress.IPv4Network(pool).subnets(new_prefix=_PREFIX)
    ]
    for subnet in random.sample(candidates, _TRIES):
        if not any(subnet.overlaps(other) for other in taken):
            yield subnet


def routed_networks(table: str) -> list[ipaddress.IPv4Network]:
    """Read the kernel's table of routes; the default route counts for nothing."""
    networks = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        destination, mask = (
            ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(fields[column]), "little"))
            for column in (1, 7)
        )
        network = ipaddress.IPv4Network((int(destination), str(mask)), strict=False)
        if network.prefixlen:
            networks.append(network)
    return networks
