"""Limits on a live process by prlimit(2): open files and file size."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.backends.abilities import LimitMeasure
from cluster.backends.base import BackendError, Probe
from cluster.backends.machine.inside import limits
from cluster.backends.machine.programs import Machine, run_program

LIMITS = {"descriptors": "RLIMIT_NOFILE", "file-size": "RLIMIT_FSIZE"}
"""Names that plans use -> the kernel's."""


class ProcessLimits:
    """See `cluster.backends.abilities.Limits`."""

    def __init__(self, hosts: Mapping[str, Machine]) -> None:
        self._hosts = hosts
        self._first: dict[tuple[str, int, str], int] = {}
        """(node, pid, limit) -> soft limit before the first change of this process."""

    async def probe(self, name: str) -> Probe:
        """Let a throw-away process run into the limit."""
        host = next(iter(self._hosts.values()))
        value, wanted = (24, "EMFILE") if name == "descriptors" else (0, "EFBIG")
        try:
            error = await run_program(host, limits.run_into, _kernel_name(name), value)
        except BackendError as refusal:
            return Probe(possible=False, reason=str(refusal))
        if error != wanted:
            return Probe(possible=False, reason=f"a process over its limit saw {error or 'none'}")
        return Probe(possible=True)

    async def set(self, node: str, name: str, value: int | None) -> None:
        """See `Limits.set`. Nothing happens where there is no process, or it has its own limit."""
        pid = await self._hosts[node].pid()
        if pid is None:
            if value is None:
                return
            raise BackendError(f"{node} is dead: it has no limits")
        key = (node, pid, name)
        if value is None:
            first = self._first.pop(key, None)
            if first is not None:
                await self._prlimit(node, pid, name, first)
            return
        before, _, _ = await self._prlimit(node, pid, name, value)
        self._first.setdefault(key, before)

    async def measure(self, node: str, name: str) -> LimitMeasure:
        """See `Limits.measure`."""
        pid = await self._hosts[node].pid()
        if pid is None:
            raise BackendError(f"{node} is dead: it has no limits")
        _, now, room = await self._prlimit(node, pid, name, None)
        return LimitMeasure(now, room)

    async def _prlimit(
        self, node: str, pid: int, name: str, value: int | None
    ) -> tuple[int, int, int | None]:
        """Set the limit, unless `value` is None: what it was, what it is, how much room it has."""
        host = self._hosts[node]
        return await run_program(host, limits.set_soft, pid, _kernel_name(name), value)


def _kernel_name(name: str) -> str:
    if name not in LIMITS:
        raise BackendError(f"there is no limit {name!r}: {', '.join(LIMITS)}")
    return LIMITS[name]
