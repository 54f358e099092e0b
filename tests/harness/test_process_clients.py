"""What a workload of a package has to give, and how it is said that it does not."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from checkers.history import EventType
from checkers.history.json_text import DEPTH_MAX
from harness.errors import WrongAnswerError
from harness.run.clients import ProcessClient, client_stream, operations_of
from harness.run.generators.base import Context
from workloads.base import Completion, Op, Role

GIVES_NOTHING = SimpleNamespace(client=lambda _: None, operations=lambda *_: None)
PLAN = SimpleNamespace(
    seed=1,
    rate_per_s=10,
    operation_timeout_ms=1000,
    nodes_at=lambda _: ("n1",),
    kind=SimpleNamespace(indefinite=(), cell=None, reads_at="CLIENT", reads_lag=False),
)
BACKEND = SimpleNamespace(client_network=lambda: None, endpoint=None, connect=None)


def test_a_workload_without_a_client_is_refused():
    with pytest.raises(WrongAnswerError, match="answered None, which is none of its answers"):
        ProcessClient(PLAN, GIVES_NOTHING, BACKEND, None, None, 0, 0, None)


def test_a_workload_without_operations_is_refused():
    stream = client_stream(PLAN, lambda: GIVES_NOTHING, lambda _: Role.MIXED)
    with pytest.raises(WrongAnswerError, match="answered None, which is none of its answers"):
        stream.op(Context(0, 0, (0,), lambda: None))


@pytest.mark.parametrize(
    "op",
    [
        "write",
        Op("write", "k", {1, 2}),
        Op("write", "k", float("nan")),
        Op("write", 5, 1),
        Op(7, "k", 1),
        Op("read", "k", node=3),
        Op("read", "\ud800"),
        Op("write", "k", json.loads("[" * DEPTH_MAX + "]" * DEPTH_MAX)),
    ],
)
def test_what_no_journal_holds_is_no_operation(op):
    with pytest.raises(WrongAnswerError, match="which is none of its answers"):
        list(operations_of(GIVES_NOTHING, [Op("read", "k"), op]))


@pytest.mark.parametrize("number", [1 << 63, True, "7", 1.0])
def test_what_no_journal_holds_is_no_completion(number):
    async def invoke(op):
        return Completion(EventType.OK, op.value, offset=number)

    async def close():
        pass

    inner = SimpleNamespace(invoke=invoke, close=close)
    workload = SimpleNamespace(client=lambda _: inner)
    client = ProcessClient(PLAN, workload, BACKEND, None, None, 0, 0, None)
    with pytest.raises(WrongAnswerError, match="which is none of its answers"):
        asyncio.run(client.invoke(Op("write", "k", 1)))
