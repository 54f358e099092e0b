"""Faults that a node does to itself when it is asked: a leader resigns, nodes snapshot.

Both are things that happen in any quorum, only seldom and at no chosen time. They leave nothing to
undo; the heal of a resignation measures that the quorum went on.
"""

from __future__ import annotations

from typing import ClassVar

from cluster.backends.abilities import Requests
from cluster.backends.base import NodeState
from nemeses.base import (
    Injection,
    Parameters,
    Refusal,
    View,
    add_measurement,
    application,
    before_acting,
    requests_of,
)
from nemeses.fault_kind import FaultKind
from nemeses.queries import describe, epoch_of, leading, until
from nemeses.targets import choose

EFFECT_TIMEOUT_S = 8.0
"""How long an effect may take: an election, or a snapshot on a slow disk."""


class _Request(FaultKind):
    """What the two have in common: a signal to nodes that run."""

    target: ClassVar[str] = "random"
    needs = "requests"

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        self.check(parameters, view.backend.nodes)
        requests = requests_of(view)
        with before_acting():
            states = {node: await view.backend.state(node) for node in view.backend.nodes}
            unable = {n: f"it is {s}" for n, s in states.items() if s is not NodeState.RUNNING}
            nodes = await choose(view, parameters.get("targets", self.target), unable)
        return await self.send(view, requests, parameters, nodes)

    async def send(
        self, view: View, requests: Requests, parameters: Parameters, nodes: tuple[str, ...]
    ) -> Injection:
        """Send the signal to these nodes."""
        raise NotImplementedError


class Resign(_Request):
    """Leaders give up leading (SIGUSR1), as one does when it loses touch with the others.

    Parameters: targets (default leader). A target that does not lead does nothing. It bit when an
    epoch above theirs begins.
    """

    name = "resign"
    target = "leader"
    favourites = ()

    async def send(
        self, view: View, requests: Requests, parameters: Parameters, nodes: tuple[str, ...]
    ) -> Injection:
        asked = {node: await describe(view, node) for node in nodes}
        epochs = {node: quorum.leader_epoch for node, quorum in asked.items() if quorum is not None}
        if not epochs:
            raise Refusal(f"{', '.join(nodes)} does not lead")
        with before_acting():  # nothing is left of a signal to the nodes before one that died
            for node in epochs:
                await requests.send(node, "resign")
        before = {"epoch_before": max(epochs.values())}
        return application(self.name, parameters, tuple(epochs), before)

    async def verify(self, view: View, injection: Injection) -> Injection:
        before = injection.detail["epoch_before"]

        async def later() -> int | None:
            epochs = [await epoch_of(view, node) for node in view.controllers]
            return max(epochs) if max(epochs) > before else None

        epoch = await until(later, EFFECT_TIMEOUT_S)
        if epoch is None:
            return add_measurement(injection, {}, [f"no epoch above {before} began"])
        return add_measurement(injection, {"epoch_after": epoch})

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`: a node leads in a later epoch than that of the leader that resigned.

        Not so while other faults keep them from it: `heal_all` asks again when these are healed.
        """
        before = injection.detail["epoch_before"]

        async def newer_leader() -> str | None:
            found = await leading(view)
            return found[0] if found is not None and found[1].leader_epoch > before else None

        leader = await until(newer_leader, EFFECT_TIMEOUT_S)
        wrong = [] if leader else [f"no node leads in an epoch above {before}"]
        return add_measurement(injection, {"leader_after": leader}, wrong)


class Snapshot(_Request):
    """Nodes snapshot their metadata (SIGUSR2), whatever the settings say.

    Parameters: targets (default random). It bit when each has a newer checkpoint file.
    """

    name = "snapshot"
    favourites = ("leader", "random", "all")

    async def send(
        self,
        view: View,  # noqa: ARG002  (contract)
        requests: Requests,
        parameters: Parameters,
        nodes: tuple[str, ...],
    ) -> Injection:
        with before_acting():  # as of `Resign.send`
            before = {node: await requests.latest_snapshot(node) for node in nodes}
            for node in nodes:
                await requests.send(node, "snapshot")
        return application(self.name, parameters, nodes, {"snapshots_before": before})

    async def verify(self, view: View, injection: Injection) -> Injection:
        requests = requests_of(view)
        before = injection.detail["snapshots_before"]

        async def newer() -> dict[str, str] | None:
            now = {node: await requests.latest_snapshot(node) for node in injection.targets}
            return now if all(now[node] > before[node] for node in now) else None

        after = await until(newer, EFFECT_TIMEOUT_S)
        if after is None:
            return add_measurement(injection, {}, ["not every target has a newer checkpoint"])
        return add_measurement(injection, {"snapshots_after": after})

    async def heal(self, view: View, injection: Injection) -> Injection:
        """See `Fault.heal`: a snapshot needs no undoing."""
        del view
        return add_measurement(injection, {})
