"""Directed link cuts by the packet filter of each node's own host (nft).

Cutting (a, b) makes b's host drop every packet that comes from a's address, before it reaches any
socket: nothing that a says arrives, whichever side dialled, and what b says still does. a's kernel
goes on sending, as into a dead wire. As acknowledgements are packets, too, a TCP connection that
loses one direction soon stands still in both; datagrams do not.

One table a host, named by the run. Counters of the bytes that passed are kept by peer; a cut
renews the peer's counter in the same transaction, so that whatever it shows has passed since.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping

from cluster.backends.abilities import Host
from cluster.backends.base import BackendError, Link
from cluster.backends.hosts import all_of

_Act = Callable[[str, list[str]], Awaitable[None]]

TABLE_PREFIX = "kraftprobe_"
"""Begins the name of every table; `kraftprobe cleanup` looks for it."""


def table_name(run_id: str) -> str:
    """Name the nft table of a run."""
    return TABLE_PREFIX + re.sub(r"[^A-Za-z0-9]", "_", run_id)[:200]


class LinkRules:
    """What is cut, as the packet filters of all hosts have it. `install` first."""

    def __init__(self, hosts: Mapping[str, Host], run_id: str) -> None:
        self._hosts = dict(hosts)
        self._table = table_name(run_id)
        self._cut: set[Link] = set()
        self._uncounted: set[Link] = set()
        """Of these, those of which the rules were gone for a while: nobody knows what passed."""
        self._locks = {node: asyncio.Lock() for node in hosts}
        family = {ipaddress.ip_address(host.address).version for host in hosts.values()}
        if len(family) != 1 or len({host.address for host in hosts.values()}) != len(hosts):
            raise BackendError("every host needs an address of its own, all IPv4 or all IPv6")
        self._type, self._match = ("ipv4_addr", "ip") if family == {4} else ("ipv6_addr", "ip6")

    async def install(self) -> None:
        """Put the table into every host. Raises BackendError."""
        await all_of(self.reapply(node) for node in self._hosts)

    async def reapply(self, node: str) -> None:
        """Write the node's whole table anew, with what is cut now; counters begin again."""
        async with self._locks[node]:
            await self._nft(node, self._whole_table(node))

    async def ensure(self, node: str) -> None:
        """Write the table anew if the host has lost it, as when its firewall was loaded anew."""
        listed = await self._hosts[node].run(("nft", "list", "set", "inet", self._table, "dropped"))
        if listed.exit_code != 0:
            self._uncounted.update(link for link in self._cut if link[1] == node)
            await self.reapply(node)

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop what comes over these links from now on. Links count as cut even if this fails."""
        new = sorted(set(links) - self._cut)
        self._cut.update(new)
        self._uncounted.difference_update(new)
        await self._each_target(new, self._add)

    async def restore(self, links: Iterable[Link]) -> None:
        """Let these links pass again. Those on unreachable hosts stay cut."""
        await self._each_target(sorted(self._cut.intersection(links)), self._remove)

    def links_cut(self) -> frozenset[Link]:
        return frozenset(self._cut)

    async def bytes_since_cut(self, link: Link) -> int | None:
        """Count what has passed a cut link since; None when it is not cut or was not counted."""
        if link not in self._cut - self._uncounted:
            return None
        source, target = link
        command = ("nft", "-j", "list", "set", "inet", self._table, "passed")
        listed = await self._hosts[target].run(command)
        if listed.exit_code != 0:
            return None  # the rules were lost: the probes show what passes
        return _count(listed.stdout, self._hosts[source].address)

    async def remove(self) -> None:
        """Take the tables away, and with them every cut."""
        self._cut.clear()
        await all_of(self._drop_table(node) for node in self._hosts)

    # -- transactions ----------------------------------------------------------------------------

    async def _each_target(self, links: list[Link], act: _Act) -> None:
        """Act on every target's host at once; all of them, whatever one of them says."""
        by_target: dict[str, list[str]] = {}
        for source, target in links:
            by_target.setdefault(target, []).append(source)
        await all_of(act(target, sources) for target, sources in by_target.items())

    async def _add(self, target: str, sources: list[str]) -> None:
        addresses = self._addresses(sources)
        table = self._table
        async with self._locks[target]:
            script = (
                f"delete element inet {table} passed {{ {addresses} }}\n"
                f"add element inet {table} passed {{ {addresses} }}\n"
                f"add element inet {table} dropped {{ {addresses} }}\n"
            )
            await self._change(target, script, {(source, target) for source in sources})

    async def _remove(self, target: str, sources: list[str]) -> None:
        links = {(source, target) for source in sources}
        async with self._locks[target]:
            self._cut -= links
            addresses = self._addresses(sources)
            try:
                script = f"delete element inet {self._table} dropped {{ {addresses} }}\n"
                await self._change(target, script, links)
            except BaseException:
                self._cut |= links
                raise

    async def _change(self, node: str, script: str, links: set[Link]) -> None:
        """Run a small transaction of links; where the table is lost or differs, write it anew."""
        try:
            await self._nft(node, script)
        except BackendError:
            self._uncounted.update({link for link in self._cut if link[1] == node} - links)
            await self._nft(node, self._whole_table(node))

    async def _drop_table(self, node: str) -> None:
        table = self._table
        await self._nft(node, f"add table inet {table}\ndelete table inet {table}\n")

    def _addresses(self, nodes: Iterable[str]) -> str:
        return ", ".join(self._hosts[node].address for node in nodes)

    def _whole_table(self, node: str) -> str:
        peers = [peer for peer in self._hosts if peer != node]
        dropped = sorted(source for source, target in self._cut if target == node)
        table = self._table
        passed = f"elements = {{ {self._addresses(peers)} }}" if peers else ""
        cut = f"elements = {{ {self._addresses(dropped)} }}" if dropped else ""
        return (
            f"add table inet {table}\n"  # so that the delete finds one
            f"delete table inet {table}\n"
            f"table inet {table} {{\n"
            f" set dropped {{ type {self._type}; {cut} }}\n"
            f" set passed {{ type {self._type}; counter; {passed} }}\n"
            f" chain input {{ type filter hook input priority -150; policy accept;\n"
            f"  {self._match} saddr @dropped counter drop\n"
            f"  {self._match} saddr @passed\n"
            f" }}\n"
            f"}}\n"
        )

    async def _nft(self, node: str, script: str) -> None:
        done = await self._hosts[node].run(("nft", "-f", "-"), stdin=script.encode())
        if done.exit_code != 0:
            raise BackendError(f"{node}: nft refused: {done.complaint(0)}")


def _count(listing: bytes, address: str) -> int | None:
    """Find the address's counter in the JSON of a set. Raises BackendError on other output."""
    try:
        for entry in json.loads(listing)["nftables"]:
            for element in entry.get("set", {}).get("elem", ()):
                if element["elem"]["val"] == address:
                    return int(element["elem"]["counter"]["bytes"])
    except (ValueError, TypeError, KeyError) as error:
        raise BackendError(f"nft gives a counter in an unknown form: {error!r}") from error
    return None
