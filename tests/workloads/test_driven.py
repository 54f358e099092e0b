"""How operations of the workloads over a driver end, by where they were cut off."""

import asyncio
import contextlib
import struct
from types import SimpleNamespace

import pytest

from checkers.history import Event, EventType
from cluster.node.ports import Endpoint
from harness.run.generators.base import Context, Next
from harness.run.phases import final_phase
from tests.client_context import client_context
from workloads.base import EVERY_NODE, Op
from workloads.driven import Refused, register_kind, set_kind

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO


LISTED = ("b", "a")


class Scripted:
    """A driver whose calls raise what was scripted for them."""

    def __init__(self, error=None, answer=LISTED):
        self.error, self.answer, self.closed = error, answer, False

    async def _act(self, *_):
        if self.error is not None:
            raise self.error
        return self.answer

    async def _change(self, *_):
        if self.error == "hangs":
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return None
        answer = await self._act()
        return None if answer == LISTED else answer

    add = put = _change
    get = all = _act

    def close(self):
        self.closed = True


NODES = ("n1", "n2", "n3")


async def connect(endpoint):
    return None


def invoke(op, *, opens=None, error=None, answer=LISTED, pinned_to=None, times=1):
    drivers, nodes = [], []

    async def open_driver(context, node):
        nodes.append(node)
        if isinstance(opens, Exception):
            raise opens
        for other in opens or ():
            await context.connect(context.endpoint(other, "CLIENT"))
        drivers.append(Scripted(error, answer))
        return drivers[-1]

    async def body():
        context = client_context(
            nodes_at=lambda _: NODES,
            endpoint=lambda node, _: Endpoint(int(node[1]), "host", int(node[1])),
            connect=connect,
            pinned_to=pinned_to,
            worker=1,
            timeout_ms=50,
        )
        client = set_kind("s", "", open_driver).create({}).client(context)
        done = [await client.invoke(op) for _ in range(times)]
        await client.close()
        return done

    done = asyncio.run(body())
    assert all(driver.closed for driver in drivers)
    return done, nodes


ADD, READ = Op("add", None, "x"), Op("read")


@pytest.mark.parametrize(
    ("op", "script", "ends"),
    [
        (ADD, {}, OK),
        (ADD, {"opens": ConnectionRefusedError()}, FAIL),
        (ADD, {"error": ConnectionResetError()}, INFO),
        (ADD, {"error": EOFError()}, INFO),
        (ADD, {"error": TimeoutError()}, INFO),
        (ADD, {"error": "hangs"}, INFO),
        (ADD, {"error": Refused("it is there")}, FAIL),
        (ADD, {"error": struct.error("short")}, INFO),
        (READ, {"error": ConnectionResetError()}, FAIL),
        (READ, {"error": KeyError("value")}, FAIL),
    ],
)
def test_a_change_that_was_given_to_a_driver_may_have_had_its_effect(op, script, ends):
    ((done,), _) = invoke(op, **script)
    assert done.type is ends


def test_an_answer_that_cannot_be_read_is_named_as_one():
    ((done,), _) = invoke(READ, error=ValueError("garbage"))
    assert done.error == "wrong-answer: ValueError: garbage"


@pytest.mark.parametrize(
    ("op", "answer"),
    [
        (READ, 7),
        (READ, "ab"),
        (READ, None),
        (READ, ["a", 1]),
        (Op("read", "k0"), 7),
        (Op("read", "k0"), b"a"),
        (Op("read", "k0"), ["a"]),
        (Op("read", "k0"), object()),
    ],
)
def test_what_no_driver_answers_is_a_wrong_answer(op, answer):
    ((done,), _) = invoke(op, answer=answer)
    assert done.type is FAIL
    assert done.error.startswith("wrong-answer: ValueError: ")
    assert "of a driver answers with text, not with" in done.error


@pytest.mark.parametrize("op", [ADD, Op("write", "k0", "x")])
@pytest.mark.parametrize("answer", [{"error": "no leader"}, False, "OK"])
def test_a_change_that_a_driver_answers_may_have_failed(op, answer):
    ((done,), _) = invoke(op, answer=answer)
    assert done.type is INFO
    assert done.error.startswith("wrong-answer: ValueError: ")
    assert "of a driver answers with nothing, not with" in done.error


def test_a_driver_that_connects_to_another_node_is_one_with_a_wrong_answer():
    ((done,), _) = invoke(READ, opens=["n1"])
    assert done.error == "wrong-answer: ValueError: a driver of n2 connects to n1"
    assert invoke(READ, opens=["n2", "n1"])[0][0].type is OK, "it may be sent elsewhere"


def test_after_a_failure_the_next_node_is_asked_unless_the_client_is_pinned():
    assert invoke(ADD, error=OSError(), times=3)[1] == ["n2", "n3", "n1"]
    assert invoke(ADD, error=OSError(), times=2, pinned_to="n3")[1] == ["n3", "n3"]
    assert invoke(ADD, times=3)[1] == ["n2"], "one connection serves as long as it works"


def test_the_whole_set_is_read_at_every_node_in_the_end():
    workload = set_kind("s", "", None).create({})
    assert workload.final_operations() == (Op("read", node=EVERY_NODE),)
    plan = SimpleNamespace(make_workload=lambda: workload, nodes_at=lambda _: ("n1", "n2"))
    phase, context, asked = final_phase(plan, 1.0), Context(0, 0, (0,), lambda: None), []
    while isinstance(answer := phase.op(context), Next):
        asked.append(answer.op)
        phase.update(context, Event(len(asked), 0, 0, OK, "read"))
    assert asked == [Op("read", node="n1"), Op("read", node="n2")]
    assert workload.setup_operations() == (Op("read"),), "so that the set is there"
    ((done,), nodes) = invoke(Op("read", node="n3"), pinned_to="n1")
    assert (nodes, done.node, done.value) == (["n3"], "n3", ["a", "b"])


def test_registers_write_unique_values_and_are_judged_by_their_history():
    kind = register_kind("r", "", None)
    workload = kind.create({"keys": 2, "write_fraction": 0.5})
    assert [check.name for check in workload.checks()] == ["linearizable"]
    assert workload.cells() == ()
    assert not kind.speaks_kafka
