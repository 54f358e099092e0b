"""Workload `appends`: records appended to the log of a bare raft quorum, and read back from nodes.

Every value is unique in the run (`w<worker>.<count>`), and is appended once: the answer comes when
the record is committed, or its leader no longer leads, and then its fate is not known. A poll reads
what one node has committed, from where the last poll of its process ended.

What is read in the end is the whole log at each node. Before each of these reads a record that
says nothing is appended, and the read is done once its node has replayed that: whatever was
acknowledged before is in it then. Judged by `checkers.partition_logs`, as a log of one partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from checkers.history import EventType
from checkers.partition_logs.columns import POLL, POLL_ALL, SEND
from checkers.registry import CheckSpec
from cluster.client.caller import CallFailed, Outcome, WrongAnswerError
from cluster.client.raft_log import (
    NO_VALUE,
    NOT_LEADER,
    AppendRequest,
    AppendResponse,
    ReadRequest,
    ReadResponse,
)
from cluster.values import valueclass
from workloads.base import ClientContext, Completion, Op, Option, Role, WorkloadKind, completion
from workloads.data.log_client import AtReplica
from workloads.keyed import Plain, Target

if TYPE_CHECKING:
    from workloads.shapes import Shapes

T = TypeVar("T")

KEY: Final = "log-0"
"""The one log, named as a partition is."""
OPTIONS: Final = {"nodes": Option(7, "most nodes whose logs are read whole in the end", 1, 100)}
_APPENDS_FRACTION: Final = 0.7
_PAUSE_S: Final = 0.02
"""Between two looks at a node that has not replayed the last record yet."""


class AppendsClient:
    """One process, with the position of its polls."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._target = Target(context)
        self._position = 0

    async def invoke(self, op: Op) -> Completion:
        if op.f == SEND:
            return await self._send(op)
        if op.f == POLL:
            return await self._poll(op)
        assert op.f == POLL_ALL, f"logs know no {op.f}"
        return await self._poll_all(op)

    async def close(self) -> None:
        """Nothing is held."""

    async def _append(self, value: str) -> tuple[str, AppendResponse | Outcome]:
        node = self._target.choose()
        try:
            answer = await self._call(node, AppendRequest(value), AppendResponse)
        except CallFailed as failed:
            self._target.learn(node, failed.outcome)
            return node, failed.outcome
        if not answer.error:
            return node, answer
        refused = answer.error == NOT_LEADER
        outcome = Outcome("fail" if refused else "info", error=answer.error)
        self._target.learn(node, outcome)
        return node, outcome

    async def _send(self, op: Op) -> Completion:
        assert isinstance(op.value, str), "records are texts"
        node, answer = await self._append(op.value)
        if isinstance(answer, Outcome):
            return completion(answer, node, op.value)
        return Completion(EventType.OK, op.value, None, node, answer.offset, answer.epoch)

    async def _poll(self, op: Op) -> Completion:
        node = self._target.choose()
        try:
            answer = await self._call(node, ReadRequest(self._position), ReadResponse)
        except CallFailed as failed:
            self._target.learn(node, failed.outcome)
            return completion(failed.outcome, node, op.value)
        if answer.records:
            self._position = answer.records[-1][0] + 1
        return Completion(EventType.OK, _answer(answer), None, node)

    async def _poll_all(self, op: Op) -> Completion:
        nodes = self._context.nodes_at("CONTROLLER")
        node = nodes[op.replica % len(nodes)] if isinstance(op, AtReplica) else nodes[0]
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._context.timeout_ms / 1000.0
        asked, last = await self._append(NO_VALUE)
        if isinstance(last, Outcome):
            return Completion(EventType.FAIL, None, last.error, asked)
        try:
            while True:
                answer = await self._call(node, ReadRequest(0), ReadResponse)
                if answer.high_watermark > last.offset:
                    return Completion(EventType.OK, _answer(answer), None, node)
                if loop.time() >= end_s:
                    return Completion(EventType.FAIL, None, "not-replayed-in-time", node)
                await asyncio.sleep(_PAUSE_S)
        except CallFailed as failed:
            return Completion(EventType.FAIL, None, str(failed), node)

    async def _call(self, node: str, request: object, answer: type[T]) -> T:
        """Ask a node. Raises CallFailed, also for an answer of another type."""

        def read(given: Any) -> T:
            if not isinstance(given, answer):
                raise WrongAnswerError(f"a {type(given).__name__}")
            return given

        return await self._context.client.ask(self._context.peer(node), request, read)


@valueclass
class Appends(Plain):
    """The workload with its options."""

    makes = AppendsClient
    nodes: int
    name: str = "appends"

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        share = {Role.READER: 0.0, Role.WRITER: 1.0, Role.MIXED: _APPENDS_FRACTION}[role]
        count = 0
        while True:
            if random.random() < share:
                yield Op(SEND, KEY, f"w{worker}.{count}")
                count += 1
            else:
                yield Op(POLL, KEY)

    def final_operations(self) -> Sequence[Op]:
        """Read the log of each node whole."""
        return tuple(AtReplica(POLL_ALL, KEY, replica=number) for number in range(self.nodes))

    def shapes(self) -> Shapes:
        """Appends, and reads of what is committed."""
        from pydantic import Field  # noqa: PLC0415

        of_log = {"key": Literal["log-0"]}
        text = Field(pattern=r"^[^-]", description="a text that does not begin with -")
        return {SEND: {**of_log, "value": Annotated[str, text]}, POLL: of_log, POLL_ALL: of_log}

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """The log keeps what was acknowledged, in order."""
        del reads_lag
        return (CheckSpec("log", {"acks": "all"}),)


def _answer(read: ReadResponse) -> Mapping[str, Any]:
    return {"records": [list(record) for record in read.records]}


KIND = WorkloadKind(
    "appends",
    "records appended to the log of a bare raft quorum and read back",
    OPTIONS,
    lambda options: Appends(options["nodes"]),
    speaks_kafka=False,
)
