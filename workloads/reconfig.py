"""Workload `reconfig`: registers under load while voters come and go (KIP-853).

What `register` does, and beside it `change-voters`, which some workers do now and then: the one
voter that is missing is added, or else one is removed, in turn; two are always left. Which change
it was, is in the completion: {"change": "remove", "voter": 2}. The first change finds the
voters configured and finalizes kraft.version 1 instead; it ends in `fail`, as it changed no voter.
With option `return_fraction` below 1 some changes only ever remove: a voter that is missing then
stays out, unless something else lets it in.

An answer to a change comes when the new set is committed. Every register must be linearizable
whatever the voters, and the sets must follow each other by one voter and hold every change that was
answered (`checkers.nodes.voter_changes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from checkers.registry import CheckSpec
from cluster.client.caller import CallFailed, Outcome
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    AddVoterRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveVoterRequest,
    ReplicaDescription,
)
from cluster.node.log.batch.control import VoterListener
from cluster.node.ports import Failure
from cluster.node.protocol.messages import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    i8,
    i16,
    milliseconds,
)
from cluster.values import valueclass
from workloads import register
from workloads.base import ClientContext, Completion, Op, Option, Role, WorkloadKind
from workloads.keyed import TargetClient

if TYPE_CHECKING:
    from workloads.shapes import Shapes

CHANGE: Final = "change-voters"
REMOVE_ONLY: Final = {"change": "remove"}
LEAST_VOTERS: Final = 2
OPTIONS = {
    **register.OPTIONS,
    "change_fraction": Option(0.02, "share of operations that change the voters", 0.001, 0.5),
    "return_fraction": Option(
        1.0, "share of those that may add the voter that is missing", 0.0, 1.0
    ),
}


class ReconfigClient(TargetClient):
    """One process's client."""

    def __init__(self, context: ClientContext) -> None:
        super().__init__(context)
        self._registers = register.RegisterClient(context)

    async def invoke(self, op: Op) -> Completion:
        if op.f != CHANGE:
            return await self._registers.invoke(op)
        node = self._target.choose()
        outcome = await self._change(node, adds=op.value != REMOVE_ONLY)
        return self._completion(node, outcome)

    async def _change(self, node: str, *, adds: bool) -> Outcome:
        context = self._context
        peer = context.peer(node)
        try:
            request, value = await context.client.ask(
                peer, DescribeQuorumRequest(), lambda quorum: self._next(quorum, adds=adds)
            )
        except CallFailed as failed:
            return Outcome("fail", error=str(failed))  # nothing was asked for yet
        if isinstance(request, str):
            return Outcome("fail", error=request)

        def read(response: Any) -> Outcome:
            context.client.accept(response.error)
            return Outcome("ok")

        outcome = await context.client.attempt(peer, request, read)
        if outcome.error == ErrorCode.unsupported_version.name:
            outcome = await self._upgrade(node) or outcome
        return replace(outcome, value=value)

    def _next(
        self, quorum: DescribeQuorumResponse, *, adds: bool
    ) -> tuple[AddVoterRequest | RemoveVoterRequest | str, dict[str, Any]]:
        """Add a node that can be a voter and is none, else remove the next voter in turn.

        Instead of a request why there is none.
        """
        if quorum.error is not ErrorCode.none:
            return quorum.error.name, {}
        able = self._context.nodes_at("CONTROLLER")
        for observer in quorum.observers:
            votes = any(voter.replica_id == observer.replica_id for voter in quorum.voters)
            if adds and not votes and f"n{observer.replica_id}" in able:
                return self._addition(observer)
        if len(quorum.voters) <= LEAST_VOTERS:
            return "no-change-possible", {}
        # In turn: the committed offset goes on, whichever worker asks.
        voter = quorum.voters[max(quorum.high_watermark, 0) % len(quorum.voters)]
        value = {"change": "remove", "voter": voter.replica_id}
        return RemoveVoterRequest(None, voter.replica_id, voter.directory_id), value

    def _addition(self, observer: ReplicaDescription) -> tuple[AddVoterRequest, dict[str, Any]]:
        context = self._context
        where = context.endpoint(f"n{observer.replica_id}", "CONTROLLER")
        request = AddVoterRequest(
            None,
            round(context.timeout_ms),
            observer.replica_id,
            observer.directory_id,
            (VoterListener("CONTROLLER", where.host, where.port),),
        )
        return request, {"change": "add", "voter": observer.replica_id}

    async def _upgrade(self, node: str) -> Outcome | None:
        """Finalize kraft.version 1; whether it did, the next change sees. Return a wrong answer."""
        update = FeatureUpdateKey(
            feature="kraft.version", max_version_level=i16(1), upgrade_type=i8(1)
        )
        request = UpdateFeaturesRequest(
            timeout=milliseconds(self._context.timeout_ms),
            feature_updates=(update,),
            validate_only=False,
        )
        try:
            await self._context.client.call(self._context.peer(node), request)
        except CallFailed as failed:
            return failed.outcome if failed.failure is Failure.WRONG_ANSWER else None
        return None


@valueclass
class Reconfig(register.Register):
    """The workload with its options."""

    makes = ReconfigClient
    name: str = "reconfig"
    change_fraction: float = field(kw_only=True)
    return_fraction: float = field(kw_only=True)

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Those of `register`, with changes of the voters among them."""
        changes = Random(random.getrandbits(64))
        for op in register.Register.operations(self, worker, random, role):
            if role is Role.MIXED and changes.random() < self.change_fraction:
                returns = self.return_fraction >= 1 or changes.random() < self.return_fraction
                yield Op(CHANGE, value=None if returns else REMOVE_ONLY)
            yield op

    def shapes(self) -> Shapes:
        """Those of its registers, and changes."""
        from workloads.shapes import Removal  # noqa: PLC0415

        return {**register.Register.shapes(self), CHANGE: {"value": (Removal | None, None)}}

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """As `register`, for reads and writes; and the voter sets follow one another."""
        reads, *plain = register.Register.checks(self, reads_lag=reads_lag)
        functions = {"functions": ["read", "write"]}
        return (
            CheckSpec(reads.name, {**reads.options, **functions}),
            *plain,
            CheckSpec("voter-changes"),
        )


KIND = WorkloadKind(
    "reconfig",
    "registers while voters come and go; linearizable, one voter at a time",
    OPTIONS,
    lambda options: Reconfig(**options),
)
