"""Whether a provider of hosts can do its things here, tried with two hosts of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from cluster.backends.base import Ability, BackendError, Probe
from cluster.backends.hosts import HostProvider
from cluster.backends.lifecycle import Incarnation
from cluster.backends.linkprobe import LinkProber
from cluster.backends.linkrules import LinkRules
from cluster.backends.processes import TRIAL, labels
from cluster.backends.processprobe import SILENCE_S, SLEEP, TIMEOUT_S, probe_process
from cluster.backends.trials import trial_folder

MakeProvider = Callable[[Path, str], HostProvider]
"""From a run folder and a run id."""

_NODES = ("n1", "n2")


async def probe(make: MakeProvider, ability: Ability) -> Probe:
    """Try one ability; leaves nothing behind."""
    with trial_folder() as folder:
        run_id = f"{TRIAL}{secrets.token_hex(4)}"
        provider = make(folder, run_id)
        try:
            if ability is Ability.LINKS:
                return await _probe_links(provider, run_id)
            return await _probe_process(provider, run_id, signals=ability is Ability.SIGNALS)
        except (OSError, BackendError) as error:
            return Probe(possible=False, reason=str(error))
        finally:
            await provider.tear_down()


async def _probe_process(provider: HostProvider, run_id: str, *, signals: bool) -> Probe:
    await provider.create(_NODES)
    sleep = (provider.interpreter, *SLEEP)
    process = Incarnation(await provider.start("n1", sleep, labels(run_id), "stdout.log"))
    return await probe_process(process, signals=signals)


async def _probe_links(provider: HostProvider, run_id: str) -> Probe:
    hosts = await provider.create(_NODES)
    rules, prober = LinkRules(hosts, run_id), LinkProber(provider, hosts, run_id)
    await rules.install()
    await prober.start()
    link, back = ("n1", "n2"), ("n2", "n1")
    seen = []
    for cut in (False, True, False):
        await (rules.cut if cut else rules.restore)([link])
        there = await prober.passes(link, SILENCE_S if cut else TIMEOUT_S, as_answer=False)
        seen.append((there, await prober.passes(back, TIMEOUT_S, as_answer=True)))
    await rules.remove()
    if seen == [(True, True), (False, True), (True, True)]:
        return Probe(possible=True)
    return Probe(possible=False, reason=f"cutting n1->n2 shows wrong effects: {seen}")
