"""Faults that a node does to itself when it is asked: a leader resigns, nodes snapshot.

Both are things that happen in any quorum, only seldom and at no chosen time. They leave nothing to
undo; the heal of a resignation measures that the quorum went on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from cluster.backends.base import NodeState, Probe
from nemeses.base import Injection, Parameters, View, before_acting, refusal
from nemeses.queries import describe, epoch_of, leading, until
from nemeses.targets import check_keys, check_target, choose

EFFECT_TIMEOUT_S = 8.0
"""How long an effect may take: an election, or a snapshot on a slow disk."""


def _unable(view: View) -> Probe:
    missing = view.backend.abilities().missing.get("requests", "nodes take no signals here")
    return Probe(possible=False, reason=missing)


async def _not_running(view: View) -> dict[str, str]:
    states = {node: await view.backend.state(node) for node in view.backend.nodes}
    return {n: f"it is {state}" for n, state in states.items() if state is not NodeState.RUNNING}


class Resign:
    """Leaders give up leading (SIGUSR1), as one does when it loses touch with the others.

    Parameters: targets (default leader). A target that does not lead does nothing. It bit when an
    epoch above theirs begins.
    """

    name: ClassVar[str] = "resign"

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        """See `Fault.check`."""
        check_keys(self.name, parameters, ("targets",))
        check_target(parameters.get("targets", "leader"), nodes)

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, object], ...]:
        """See `Fault.options`."""
        del nodes
        return ({},)

    async def probe(self, view: View) -> Probe:
        """See `Fault.probe`."""
        return _unable(view) if view.backend.abilities().requests is None else Probe(possible=True)

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        """See `Fault.inject`."""
        self.check(parameters, view.backend.nodes)
        requests = view.backend.abilities().requests
        if requests is None:
            return refusal(self.name, parameters, _unable(view).reason or "impossible here")
        with before_acting():
            unable = await _not_running(view)
            choice = await choose(view, parameters.get("targets", "leader"), unable)
        if not choice.nodes:
            return refusal(self.name, parameters, choice.reason)
        asked = {node: await describe(view, node) for node in choice.nodes}
        epochs = {node: quorum.leader_epoch for node, quorum in asked.items() if quorum is not None}
        if not epochs:
            return refusal(self.name, parameters, f"{', '.join(choice.nodes)} does not lead")
        detail = {"epoch_before": max(epochs.values())}
        with before_acting():  # nothing is left of a signal to the nodes before one that died
            for node in epochs:
                await requests.send(node, "resign")
        return Injection(
            self.name, dict(parameters), tuple(epochs), verified=False, detail=detail, applied=True
        )

    async def verify(self, view: View, injection: Injection) -> Injection:
        """See `Fault.verify`."""
        before = injection.detail["epoch_before"]

        async def later() -> int | None:
            epochs = [await epoch_of(view, node) for node in view.controllers]
            return max(epochs) if max(epochs) > before else None

        epoch = await until(later, EFFECT_TIMEOUT_S)
        if epoch is None:
            detail = {**injection.detail, "reason": f"no epoch above {before} began"}
            return replace(injection, verified=False, detail=detail)
        return replace(injection, verified=True, detail={**injection.detail, "epoch_after": epoch})

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`: a node leads in a later epoch than that of the leader that resigned.

        Not so while other faults keep them from it: `heal_all` asks again when these are healed.
        """
        before = injection.detail["epoch_before"]

        async def newer_leader() -> str | None:
            found = await leading(view)
            return found[0] if found is not None and found[1].leader_epoch > before else None

        leader = await until(newer_leader, EFFECT_TIMEOUT_S)
        detail = {key: value for key, value in injection.detail.items() if key != "reason"}
        detail["leader_after"] = leader
        if leader is None:
            detail["reason"] = f"no node leads in an epoch above {before}"
        return replace(injection, verified=leader is not None, detail=detail)


class Snapshot:
    """Nodes snapshot their metadata (SIGUSR2), whatever the settings say.

    Parameters: targets (default random). It bit when each has a newer checkpoint file.
    """

    name: ClassVar[str] = "snapshot"

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        """See `Fault.check`."""
        check_keys(self.name, parameters, ("targets",))
        check_target(parameters.get("targets", "random"), nodes)

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, object], ...]:
        """See `Fault.options`."""
        del nodes
        return tuple({"targets": target} for target in ("leader", "random", "all"))

    async def probe(self, view: View) -> Probe:
        """See `Fault.probe`."""
        return _unable(view) if view.backend.abilities().requests is None else Probe(possible=True)

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        """See `Fault.inject`."""
        self.check(parameters, view.backend.nodes)
        requests = view.backend.abilities().requests
        if requests is None:
            return refusal(self.name, parameters, _unable(view).reason or "impossible here")
        with before_acting():  # as of `Resign.inject`
            unable = await _not_running(view)
            choice = await choose(view, parameters.get("targets", "random"), unable)
            before = {node: await requests.latest_snapshot(node) for node in choice.nodes}
            for node in choice.nodes:
                await requests.send(node, "snapshot")
        if not choice.nodes:
            return refusal(self.name, parameters, choice.reason)
        return Injection(
            self.name,
            dict(parameters),
            choice.nodes,
            verified=False,
            detail={"snapshots_before": before},
            applied=True,
        )

    async def verify(self, view: View, injection: Injection) -> Injection:
        """See `Fault.verify`."""
        requests = view.backend.abilities().requests
        assert requests is not None, "it was injected"
        before = injection.detail["snapshots_before"]

        async def newer() -> dict[str, str] | None:
            now = {node: await requests.latest_snapshot(node) for node in injection.targets}
            return now if all(now[node] > before[node] for node in now) else None

        after = await until(newer, EFFECT_TIMEOUT_S)
        if after is None:
            detail = {**injection.detail, "reason": "not every target has a newer checkpoint"}
            return replace(injection, verified=False, detail=detail)
        return replace(
            injection, verified=True, detail={**injection.detail, "snapshots_after": after}
        )

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`: a snapshot needs no undoing."""
        del view
        detail = {key: value for key, value in injection.detail.items() if key != "reason"}
        return replace(injection, verified=True, detail=detail)
