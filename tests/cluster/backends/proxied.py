"""Link proxies between servers in the test's own event loop, and clients that dial through them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from cluster.backends.links.proxy import HOST, LinkProxies
from cluster.node.ports import Endpoint

A_TO_B, B_TO_A = ("n1", "n2"), ("n2", "n1")


class World:
    """Three nodes with proxies between them; connections that a test dials end with it."""

    def __init__(self, proxies: LinkProxies, nodes: dict[str, Any]) -> None:
        self.proxies = proxies
        self.nodes = nodes
        self._writers: list[asyncio.StreamWriter] = []

    def port(self, node: str) -> int:
        return self.nodes[node].port

    async def dial(self, source: str, target: str, listener="CONTROLLER"):
        port = self.proxies.port(source, target, listener)
        reader, writer = await asyncio.open_connection(HOST, port)
        self._writers.append(writer)
        return reader, writer

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def run_between(nodes: dict[str, Any], body: Callable[[World], Awaitable[None]]) -> None:
    """Run a test's body between these nodes; no callback may fail."""
    errors: list[object] = []

    async def whole() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        servers = [await node.serve() for node in nodes.values()]
        proxies = LinkProxies(tuple(nodes), lambda node, _: Endpoint(0, HOST, nodes[node].port))
        proxies.open()
        world = World(proxies, nodes)
        try:
            await body(world)
        finally:
            world.close()
            proxies.close()
            for server in servers:
                server.close()
                await server.wait_closed()

    asyncio.run(asyncio.wait_for(whole(), 300))
    assert errors == [], "no callback of a proxy fails"
