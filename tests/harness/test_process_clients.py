"""What a workload of a package has to give, and how it is said that it does not."""

from types import SimpleNamespace

import pytest

from harness.errors import WrongAnswerError
from harness.run.generators.base import Context
from harness.run.process_clients import ProcessClient, client_stream
from workloads.base import Role

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
