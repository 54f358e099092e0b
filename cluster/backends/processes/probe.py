"""Whether a backend's processes can be signalled and ended, and its links be cut: by trying it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Protocol

from cluster.backends.base import Ability, Backend, BackendError, NodeState, Probe
from cluster.backends.hosts import StartedProcess
from cluster.backends.processes.lifecycle import Incarnation
from cluster.backends.terms import ONE_NODE

_SLEEP = ("-I", "-S", "-c", "import time; time.sleep(60)")
"""What Python runs in a process that only sleeps."""
PROBE_OUTPUT = "probe.log"
_TIMEOUT_S = 20.0
"""A machine that does much else may need seconds; one where it does not work waits this long."""
_SILENCE_S = 0.2
"""How long nothing has to be heard over a link that is cut."""


class Place(Backend, Protocol):
    """A backend of processes."""

    async def start_beside(self, node: str, arguments: Sequence[str]) -> StartedProcess:
        """Start Python beside a node, with its output in PROBE_OUTPUT. Raises BackendError."""


async def probe_place(place: Place, ability: Ability) -> Probe:
    """Try an ability with a process beside the first node, or the link from it to the second."""
    try:
        if ability is Ability.LINKS:
            return await _probe_link(place)
        process = Incarnation(await place.start_beside(place.nodes[0], _SLEEP))
        return await _probe_process(process, signals=ability is Ability.SIGNALS)
    except (OSError, BackendError) as error:
        return Probe(possible=False, reason=str(error))


async def _probe_link(place: Place) -> Probe:
    if len(place.nodes) < 2:
        return ONE_NODE
    first, second, *_ = place.nodes
    link, back = (first, second), (second, first)
    before = await place.measure_link(link, _TIMEOUT_S)
    await place.cut_links([link])
    during = await place.measure_link(link, _SILENCE_S)
    backwards = await place.measure_link(back, _TIMEOUT_S)
    await place.restore_links([link])
    after = await place.measure_link(link, _TIMEOUT_S)
    if before.works and during.silent and backwards.works and after.works:
        return Probe(possible=True)
    seen = f"before, during, back, after: {before}, {during}, {backwards}, {after}"
    return Probe(possible=False, reason=f"cutting {first}->{second} shows wrong effects {seen}")


async def _probe_process(process: Incarnation, *, signals: bool) -> Probe:
    """Stop it and let it go on, if that is asked for, and end it in any case."""
    try:
        failed = await _failed_signal(process) if signals else None
    finally:
        await process.send(signal.SIGKILL)
        died = await process.wait_ended(_TIMEOUT_S)
    if failed is None and not died:
        failed = "a process does not die of SIGKILL"
    return Probe(possible=failed is None, reason=failed or "")


async def _failed_signal(process: Incarnation) -> str | None:
    for number, state in ((signal.SIGSTOP, NodeState.PAUSED), (signal.SIGCONT, NodeState.RUNNING)):
        await process.send(number)
        if not await process.wait_state(state, _TIMEOUT_S):
            return f"a process is {await process.state()} after {number.name}, not {state}"
    return None
