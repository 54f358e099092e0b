"""Whether processes of a backend can be signalled and ended, tried with one that only sleeps."""

from __future__ import annotations

import signal

from cluster.backends.base import NodeState, Probe
from cluster.backends.processes.lifecycle import Incarnation

SLEEP = ("-I", "-S", "-c", "import time; time.sleep(60)")
"""What Python runs in it."""
PROBE_OUTPUT = "probe.log"
TIMEOUT_S = 20.0
"""A machine that does much else may need seconds; one where it does not work waits this long."""
SILENCE_S = 0.2
"""How long nothing has to be heard over a link that is cut."""


async def probe_process(process: Incarnation, *, signals: bool) -> Probe:
    """Stop it and let it go on, if that is asked for, and end it in any case."""
    try:
        failed = await _failed_signal(process) if signals else None
    finally:
        await process.send(signal.SIGKILL)
        died = await process.wait_ended(TIMEOUT_S)
    if failed is None and not died:
        failed = "a process does not die of SIGKILL"
    return Probe(possible=failed is None, reason=failed or "")


async def _failed_signal(process: Incarnation) -> str | None:
    for number, state in ((signal.SIGSTOP, NodeState.PAUSED), (signal.SIGCONT, NodeState.RUNNING)):
        await process.send(number)
        if not await process.wait_state(state, TIMEOUT_S):
            return f"a process is {await process.state()} after {number.name}, not {state}"
    return None
