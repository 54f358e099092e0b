"""Whether hosts let nodes be started, signalled and cut off: tried where nobody uses them yet."""

from __future__ import annotations

from cluster.backends.base import Probe
from cluster.backends.hosts import HostProvider
from cluster.backends.links.probe import LinkProber
from cluster.backends.links.rules import LinkRules
from cluster.backends.processes.lifecycle import Incarnation
from cluster.backends.processes.probe import SILENCE_S, SLEEP, TIMEOUT_S, probe_process
from cluster.backends.processes.records import labels

_OUTPUT = "probe.log"


async def probe_host(provider: HostProvider, node: str, run_id: str, *, signals: bool) -> Probe:
    """Start a process of its own beside the node, signal and end it. Raises BackendError."""
    sleep = (provider.interpreter, *SLEEP)
    process = Incarnation(await provider.start(node, sleep, labels(run_id), _OUTPUT))
    return await probe_process(process, signals=signals)


async def probe_links(rules: LinkRules, prober: LinkProber, first: str, second: str) -> Probe:
    """Cut the link from the first to the second, and restore it. Raises BackendError."""
    link, back = (first, second), (second, first)
    seen = []
    for cut in (False, True, False):
        await (rules.cut if cut else rules.restore)([link])
        there = await prober.passes(link, SILENCE_S if cut else TIMEOUT_S, as_answer=False)
        seen.append((there, await prober.passes(back, TIMEOUT_S, as_answer=True)))
    if seen == [(True, True), (False, True), (True, True)]:
        return Probe(possible=True)
    return Probe(possible=False, reason=f"cutting {first}->{second} shows wrong effects: {seen}")
