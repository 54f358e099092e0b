"""The stream of operations of a plan's clients, and the client of each process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

from checkers.history import EventType
from checkers.history.foreign import is_whole
from checkers.history.json_text import is_json
from cluster.backends.base import Backend
from cluster.client.admin_client import Client
from cluster.node.ports import Clock
from cluster.systems.kinds import SystemRequest
from harness.errors import WrongAnswerError
from harness.plan.plan import Plan
from harness.run.generators.base import Worker
from harness.run.generators.flow import EachWorker, Of
from harness.run.generators.timing import BackOff, Rate
from workloads.base import ClientContext, Completion, LeaderTracker, Op, Role, Workload
from workloads.keyed import LEADS_NOT

BACK_OFF_S = 0.1
"""Pause of a worker after a node refused because it does not lead; then it asks another node."""
PINNED_BACK_OFF_S = 0.25
"""The same pause for a worker that is pinned to a node and asks it again."""


def client_stream(
    plan: Plan, make_workload: Callable[[], Workload], role_of: Callable[[int], Role]
) -> Rate:
    """Make what clients do at the plan's rate, without an end."""

    def of_worker(worker: Worker) -> BackOff:
        assert isinstance(worker, int), "only clients have streams"
        random = Random(f"{plan.seed}/operations/{worker}")
        role = role_of(worker)
        delay_s = BACK_OFF_S if role is Role.MIXED else PINNED_BACK_OFF_S
        workload = make_workload()
        operations = operations_of(workload, workload.operations(worker, random, role))
        return BackOff(delay_s, LEADS_NOT, Of(operations))

    return Rate(plan.rate_per_s, EachWorker(of_worker), Random(f"{plan.seed}/rate"))


def operations_of(workload: Workload, operations: object) -> Iterator[Op]:
    """Yield what a workload gives for operations. Raises WrongAnswerError for what is none."""
    if not isinstance(operations, Iterable):
        raise WrongAnswerError(workload, operations)
    for op in operations:
        if not _is_operation(op):
            raise WrongAnswerError(workload, op)
        yield op


class ProcessClient:
    """A process's client together with the connections that it alone uses."""

    def __init__(
        self,
        plan: Plan,
        workload: Workload,
        backend: Backend,
        clock: Clock,
        leader: LeaderTracker,
        worker: int,
        process: int,
        pinned_to: str | None,
    ) -> None:
        """`leader` supposes which node an operation goes to unless the worker is pinned."""
        self._network = backend.client_network()
        self._inner = workload.client(
            ClientContext(
                client=Client(self._network, clock, indefinite=plan.kind.indefinite),
                endpoint=backend.endpoint,
                nodes_at=plan.nodes_at,
                leader=leader,
                worker=worker,
                process=process,
                pinned_to=pinned_to,
                timeout_ms=plan.operation_timeout_ms,
                cell=plan.kind.cell,
                reads_at=plan.kind.reads_at,
                reads_lag=plan.kind.reads_lag,
                connect=backend.connect,
                java=lambda: plan.kind.java(SystemRequest(plan.node_settings, plan.system_options)),
            )
        )
        if not all(hasattr(self._inner, name) for name in ("invoke", "close")):
            raise WrongAnswerError(workload, self._inner)

    async def invoke(self, op: Op) -> Completion:
        """See `workloads.base.WorkloadClient`. Raises WrongAnswerError."""
        completion = await self._inner.invoke(op)
        if not _has_place_in_a_journal(completion):
            raise WrongAnswerError(self._inner, completion)
        return completion

    async def close(self) -> None:
        """End its connections."""
        try:
            await self._inner.close()
        finally:
            self._network.close()


_TEXT = str, type(None)


def _is_operation(op: object) -> bool:
    return (
        isinstance(op, Op)
        and isinstance(op.f, str)
        and isinstance(op.key, _TEXT)
        and isinstance(op.node, _TEXT)
        and is_json([op.f, op.key, op.node, op.value])  # as deep as in the journal's object
    )


def _has_place_in_a_journal(completion: object) -> bool:
    return (
        isinstance(completion, Completion)
        and isinstance(completion.type, EventType)
        and isinstance(completion.error, _TEXT)
        and isinstance(completion.node, _TEXT)
        and all(n is None or is_whole(n) for n in (completion.offset, completion.epoch))
        and is_json([completion.error, completion.node, completion.value])
    )
