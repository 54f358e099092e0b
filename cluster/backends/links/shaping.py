"""Links of hosts that lose, delay, reorder, repeat and throttle packets (abilities.Shaping).

Loss is a rule in the target's packet filter (nft, a random number a packet), beside the rules that
cut links. Everything else happens to the source's packets as they leave: rules send those to peers
with a shape into a netfilter queue, which the host's agent serves (`agent.shaper`). Rules are nft's
where its `queue` works, else iptables'; in both a packet passes when nobody serves the queue
(bypass), so that an agent that dies ends its fault, which the measurement at the heal shows.

The harness's own address is in no rule.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import asdict

from cluster.backends.abilities import LinkShape, ShapeMeasure
from cluster.backends.base import BackendError, Link, Probe
from cluster.backends.hosts import AgentHost, all_of
from cluster.backends.links.probe import LinkProber
from cluster.backends.links.rules import table_name
from cluster.backends.links.shapes import PERFECT, try_shape
from cluster.backends.packages import install

_MARK = 0x6B70
"""Of packets that the shaper repeats, so that they are not queued again."""
_PER_MILLION = 1_000_000


class HostShaping:
    """See `cluster.backends.abilities.Shaping`."""

    def __init__(self, hosts: Mapping[str, AgentHost], run_id: str, prober: LinkProber) -> None:
        self._hosts = dict(hosts)
        self._prober = prober
        self._table = table_name(run_id) + "_shape"
        digest = hashlib.sha256(run_id.encode()).hexdigest()
        self._chain = f"kraftprobe_{digest[:12]}"  # iptables allows 28 characters
        self._queue = 1024 + int(digest[:4], 16) % 60_000
        v6 = any(":" in host.address for host in hosts.values())
        self._ip, self._iptables = ("ip6", "ip6tables") if v6 else ("ip", "iptables")
        self._shapes: dict[Link, LinkShape] = {}
        self._locks = {node: asyncio.Lock() for node in hosts}
        self._queued: set[str] = set()
        """Nodes with hosts that have rules that queue, or may have."""

    async def probe(self, shape: LinkShape) -> Probe:
        """Give a link the shape, measure, take it away; for clusters that nobody uses yet."""
        try:
            return await try_shape(self, tuple(self._hosts), shape)
        except BackendError as error:
            return Probe(possible=False, reason=str(error), remedy=_remedy(str(error)))

    async def shape(self, links: Mapping[Link, LinkShape]) -> None:
        """See `Shaping.shape`. What a host refuses stays remembered, so that a heal undoes it."""
        touched: dict[str, None] = {}
        for link, shape in sorted(links.items()):
            refused = self._shapes.get(link) == PERFECT  # by a host, else it were not remembered
            if self._shapes.get(link, PERFECT) == shape and not refused:
                continue
            self._shapes[link] = shape
            touched.update(dict.fromkeys(link))
        await all_of(self.reapply(node) for node in touched)
        self._shapes = {link: shape for link, shape in self._shapes.items() if shape != PERFECT}

    def shapes(self) -> Mapping[Link, LinkShape]:
        return dict(self._shapes)

    async def measure(self, link: Link) -> ShapeMeasure:
        source, target = link
        back = self._shapes.get((target, source), PERFECT)
        return await self._prober.shape(link, self._shapes.get(link, PERFECT), back)

    async def ensure(self, node: str) -> Mapping[str, str]:
        """Put back what is in force in a host that may have lost it; for `before_start`."""
        if any(node in link for link in self._shapes):
            await self.reapply(node)
        return {}

    async def reapply(self, node: str) -> None:
        """Let a host's rules and its shaper be as the links prescribe. Raises BackendError."""
        async with self._locks[node]:
            await self._lose(node)
            orders = {
                self._hosts[target].address: _order(shape)
                for (source, target), shape in sorted(self._shapes.items())
                if source == node and _needs_shaper(shape)
            }
            if orders or node in self._queued:
                host = self._hosts[node]
                await host.call(
                    "shape", links=orders, queue=self._queue, mark=_MARK, address=host.address
                )
                self._queued.add(node)
                await self._queue_packets(node, tuple(orders))
                if not orders:
                    self._queued.discard(node)

    async def remove(self) -> None:
        """Take every rule away; for hosts that outlive the run. Raises BackendError."""
        await self.shape(dict.fromkeys(self._shapes, PERFECT))

    # -- rules -----------------------------------------------------------------------------------

    async def _lose(self, node: str) -> None:
        """Write the node's table of losses anew."""
        rules = [
            f"  {self._ip} saddr {self._hosts[source].address} "
            f"numgen random mod {_PER_MILLION} <= {_last_lost(shape)} counter drop\n"
            for (source, target), shape in sorted(self._shapes.items())
            if target == node and shape.loss
        ]
        hook = "type filter hook input priority -140; policy accept;"
        await self._nft(node, f"{self._table}_loss", hook, rules)

    async def _queue_packets(self, node: str, addresses: tuple[str, ...]) -> None:
        """Let the node's packets to these addresses, and no others, be queued."""
        to = ", ".join(addresses)
        rules = [
            f"  meta mark != {_MARK} {self._ip} daddr {{ {to} }} queue num {self._queue} bypass\n"
        ]
        hook = "type filter hook output priority -140; policy accept;"
        try:
            await self._nft(node, f"{self._table}_queue", hook, rules if addresses else [])
        except BackendError:
            await self._iptables_queue(node, addresses)
        else:
            if not addresses:
                await self._iptables_queue(node, ())

    async def _nft(self, node: str, table: str, hook: str, rules: list[str]) -> None:
        script = f"add table inet {table}\ndelete table inet {table}\n"
        if rules:
            script += (
                f"table inet {table} {{\n chain packets {{\n  {hook}\n{''.join(rules)} }}\n}}\n"
            )
        done = await self._hosts[node].run(("nft", "-f", "-"), stdin=script.encode())
        if done.exit_code != 0:
            raise BackendError(f"{node}: nft refused: {done.complaint(0)}")

    async def _iptables_queue(self, node: str, addresses: tuple[str, ...]) -> None:
        tables = f"{self._iptables} -w -t mangle"
        chain = self._chain
        lines = [
            f"command -v {self._iptables} >/dev/null || exit 0" if not addresses else "",
            f"{tables} -D OUTPUT -j {chain} 2>/dev/null",
            f"{tables} -F {chain} 2>/dev/null && {tables} -X {chain}",
        ]
        if addresses:
            lines.append(f"{tables} -N {chain} || exit 1")
            lines += [
                f"{tables} -A {chain} -d {address} -m mark ! --mark {_MARK} "
                f"-j NFQUEUE --queue-num {self._queue} --queue-bypass || exit 1"
                for address in addresses
            ]
            lines.append(f"{tables} -I OUTPUT -j {chain} || exit 1")
        lines.append("exit 0")
        # The lock's usual place is not writable for the root of a user namespace.
        lock = f"XTABLES_LOCKFILE={self._hosts[node].folder}/xtables.lock"
        command = ("env", lock, "sh", "-s")
        done = await self._hosts[node].run(command, stdin="\n".join(lines).encode())
        if done.exit_code != 0:
            reason = done.complaint(0)
            raise BackendError(f"{node}: packets cannot be queued (NFQUEUE): {reason}")


def _needs_shaper(shape: LinkShape) -> bool:
    return bool(
        shape.delay_ms or shape.jitter_ms or shape.reorder or shape.duplicate or shape.rate_kbit_s
    )


def _last_lost(shape: LinkShape) -> int:
    """Return the greatest of a million random numbers at which a packet is lost."""
    return max(1, round(shape.loss * _PER_MILLION)) - 1


def _order(shape: LinkShape) -> dict[str, float | None]:
    return {key: value for key, value in asdict(shape).items() if key != "loss"}


def _remedy(reason: str) -> str:
    if "NFQUEUE" not in reason:
        return ""
    return f"{install('iptables')} && sudo modprobe -a nfnetlink_queue xt_NFQUEUE"
