"""What a plan's clients do, and the client of each process.

Workers below the plan's concurrency follow a seeded stream of operations, or in a plan with strands
a list; `STRAND_WORKERS` more perform the operations of strands, each as soon as a worker is free.
An operation of a strand or a list may name its node; every other goes to the supposed leader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random

from checkers.history import Event, EventType
from checkers.history.foreign import is_whole
from checkers.history.json_text import is_json
from cluster.backends.base import Backend
from cluster.client.admin_client import Client
from cluster.node.ports import Clock
from cluster.systems.kinds import SystemRequest
from cluster.values import valueclass
from harness.errors import WrongAnswerError
from harness.plan.plan import Plan
from harness.plan.strands import ScriptedOp
from harness.run.generators.base import NEMESIS, Answer, Context, Done, Next, Wait, Worker
from harness.run.generators.flow import EachWorker, Of
from harness.run.generators.timing import BackOff, Rate, TimeLimit
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


STRAND_WORKERS = 4
"""Workers for the operations of strands; further operations wait for a free worker."""
_NS = 1_000_000
_CERTAIN = 10**9
"""An epoch above every real one: nothing that the tracker learns replaces the aim."""


@valueclass
class AimedOp(Op):
    """An operation of a list or a strand, maybe for a given node."""

    op_id: str = ""
    place: str = ""
    """In the plan, for people."""


class ScriptedClients:
    """The generator of the fault phase (`harness.run.generators.base.Generator`)."""

    def __init__(self, plan: Plan, workload: Workload) -> None:
        self._plan = plan
        self._limit_ns = round(plan.duration_ms * _NS)
        self._origin_ns: int | None = None
        self._asked: deque[AimedOp] = deque()
        self._wake: Callable[[], None] | None = None
        self._listed = _by_worker(plan)
        self._stream = _stream(plan, workload) if plan.rate_per_s > 0 else None
        self._over = False
        self._idle: Wait | None = None
        """The answer to each worker of strands that is not needed, which asks often."""

    def ask(self, op: Op, node: str | None, op_id: str, place: str) -> None:
        """Have a strand worker perform an operation."""
        self._asked.append(AimedOp(op.f, op.key, op.value, node, op_id, place))
        if self._wake is not None:
            self._wake()

    def op(self, context: Context) -> Answer:
        self._wake = context.wake
        if self._origin_ns is None:
            self._origin_ns = context.now_ns
        end_ns = self._origin_ns + self._limit_ns
        if context.worker == NEMESIS or self._over or context.now_ns >= end_ns:
            return Done()
        assert isinstance(context.worker, int), "only the nemesis has a name"
        if context.worker >= self._plan.concurrency:
            if self._asked:
                return Next(self._asked.popleft(), context.now_ns)
            if self._idle is None:
                self._idle = Wait(end_ns)
            return self._idle
        listed = self._listed.get(context.worker)
        if listed:
            scripted = listed.popleft()
            at_ns = max(context.now_ns, self._origin_ns + round(scripted.at_ms * _NS))
            op = AimedOp(scripted.f, scripted.key, scripted.value, scripted.node)
            return Next(op, at_ns) if at_ns < end_ns else Done()
        return Done() if self._stream is None else self._stream.op(context)

    def update(self, context: Context, event: Event) -> None:
        if self._stream is not None and context.worker != NEMESIS:
            self._stream.update(context, event)

    def stop(self) -> list[str]:
        """Answer `Done` from now on; returns the places of operations that nobody performed."""
        self._over = True
        listed = (op for ops in self._listed.values() for op in ops)
        return [op.place for op in self._asked] + [
            f"operation {op.f} of worker {op.worker} at {op.at_ms:g} ms" for op in listed
        ]


def _by_worker(plan: Plan) -> dict[int, deque[ScriptedOp]]:
    listed: dict[int, deque[ScriptedOp]] = {}
    for op in sorted(plan.operations, key=lambda op: op.at_ms):
        listed.setdefault(op.worker, deque()).append(op)
    return listed


def _stream(plan: Plan, workload: Workload) -> TimeLimit:
    def role_of(worker: int) -> Role:
        if pinned_to(plan, worker) is None:
            return Role.MIXED
        return Role.READER if worker % 2 == 0 else Role.WRITER

    return TimeLimit(plan.duration_s, client_stream(plan, lambda: workload, role_of))


def pinned_to(plan: Plan, worker: int) -> str | None:
    """Return the node that a worker of the stream is pinned to, to read there or to write.

    At most half of them are (unlike those of `harness.run.phases`, each at the next node: drawn
    worlds are what they were), none with operations of the list: these name their nodes themselves.
    """
    if plan.rate_per_s <= 0 or worker >= plan.concurrency // 2 or worker in _by_worker(plan):
        return None
    nodes = plan.nodes_at("CONTROLLER" if worker % 2 else plan.kind.reads_at)
    return nodes[worker % len(nodes)]


class ScriptedClient(ProcessClient):
    """The client of a process in a plan with strands, which may name the node of an operation."""

    def __init__(
        self,
        plan: Plan,
        workload: Workload,
        backend: Backend,
        clock: Clock,
        believed: LeaderTracker,
        worker: int,
        process: int,
        ended: Callable[[str, EventType], None],
    ) -> None:
        self._believed = believed
        self._own = LeaderTracker(backend.nodes)
        self._ended = ended
        pin = pinned_to(plan, worker)
        super().__init__(plan, workload, backend, clock, self._own, worker, process, pin)

    async def invoke(self, op: Op) -> Completion:
        """Perform an operation at the node that it is aimed at, or at the supposed leader."""
        aim = op.node if isinstance(op, AimedOp) else None
        asked = aim or self._believed.guess
        self._own.learn(asked, _CERTAIN)
        completion = await super().invoke(op)
        if aim is None and self._own.guess != asked:
            self._believed.suspect(asked)
        if isinstance(op, AimedOp):
            self._ended(op.op_id, completion.type)
        return completion
