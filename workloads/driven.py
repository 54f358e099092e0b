"""A set and registers for systems that are not Kafka, over a driver of four operations.

A package says how its protocol does these four on one connection; what is drawn, sent, timed and
judged is here. It makes its workloads by `set_kind` and `register_kind`, of names of its own.

How an operation ended follows from where it was cut off. A change that was given to a driver may
have had its effect, whatever became of the answer, so every error of it is `info`; but `Refused`
says that it certainly had none. An answer that cannot be read (ValueError, LookupError,
struct.error) is a wrong answer (`checkers.runs.answers`): no such run is a PASS. So is one of a
driver that has none of a driver's answers, or that connected to another node than it was asked to.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from random import Random
from socket import socket
from typing import TYPE_CHECKING, Protocol

from checkers.history import Value
from checkers.registry import CheckSpec
from checkers.runs.answers import WRONG_ANSWER
from cluster.client.caller import Outcome
from cluster.node.ports import Endpoint
from cluster.node.runtime.network import Connect
from cluster.values import valueclass
from workloads import register
from workloads.base import (
    EVERY_NODE,
    ClientContext,
    Completion,
    Op,
    Role,
    WorkloadClient,
    WorkloadKind,
    completion,
)
from workloads.keyed import Keyed, Plain

if TYPE_CHECKING:
    from workloads.shapes import Shapes

WHOLE = 10
"""So many times as long as another operation may a read of the whole set take."""


class Refused(Exception):  # noqa: N818  (a fact, no error of the program)
    """A node said that it has not done it and never will; one line."""


class Driver(Protocol):
    """A connection to one node. Whatever is done on it, it is done once: no retries."""

    async def put(self, key: str, value: str) -> None:
        """Write a register."""

    async def get(self, key: str) -> str | None:
        """Read a register, linearizably; None: it was never written."""

    async def add(self, element: str) -> None:
        """Add to the set an element that is not there."""

    async def all(self) -> Collection[str]:
        """Read the whole set from this very node, with what was acknowledged before."""

    def close(self) -> None:
        """Close the connection. Called once, also when it is broken."""


Open = Callable[[ClientContext, str], Awaitable[Driver]]
"""(of a client, node) -> a driver; opens connections by `ClientContext.connect`, and makes what the
operations need in the system, where that is not there yet."""


def set_kind(name: str, title: str, open_driver: Open) -> WorkloadKind:
    """Return a workload that adds elements, and in the end reads the set at every node."""
    return WorkloadKind(name, title, {}, lambda _: DrivenSet(open_driver, name), speaks_kafka=False)


def register_kind(name: str, title: str, open_driver: Open) -> WorkloadKind:
    """Return a workload of registers that are written and read, each linearizable."""
    return WorkloadKind(
        name,
        title,
        register.OPTIONS,
        lambda options: DrivenRegisters(**options, opens=open_driver, name=name),
        speaks_kafka=False,
    )


@valueclass
class DrivenSet(Plain):
    """A set."""

    opens: Open
    name: str

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Add `w<worker>.<count>`."""
        del random, role  # nothing is drawn, and the set is read in the end
        count = 0
        while True:
            yield Op("add", None, f"w{worker}.{count}")
            count += 1

    def setup_operations(self) -> Sequence[Op]:
        """Read it once: then there is something that can be added to."""
        return (Op("read"),)

    def shapes(self) -> Shapes:
        """Additions, and reads of all."""
        from workloads.shapes import Text  # noqa: PLC0415

        return {"add": {"value": Text}, "read": {}}

    def final_operations(self) -> Sequence[Op]:
        """Read all of it at every node."""
        return (Op("read", node=EVERY_NODE),)

    def client(self, context: ClientContext) -> WorkloadClient:
        return DrivenClient(context, self.opens)

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:  # noqa: ARG002
        """What was acknowledged is at every node."""
        return (CheckSpec("set-full", {"linearizable": True}),)


@valueclass
class DrivenRegisters(Keyed):
    """Registers, without cells that final reads could show."""

    opens: Open
    name: str
    letter = "k"
    write = "write"

    def setup_operations(self) -> Sequence[Op]:
        """Read a register: then there is something that can be written to."""
        return (Op("read", self.key(0)),)

    def client(self, context: ClientContext) -> WorkloadClient:
        return DrivenClient(context, self.opens)

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:  # noqa: ARG002
        """Every key is linearizable."""
        return (CheckSpec("linearizable", {"model": "register"}),)


class DrivenClient:
    """One process's client: a driver at one node, a new one at the next node after any failure."""

    def __init__(self, context: ClientContext, opens: Open) -> None:
        self._context = context
        self._opens = opens
        self._nodes = context.nodes_at("CLIENT")
        self._turn = context.worker
        self._driver: Driver | None = None
        self._node = ""

    async def invoke(self, op: Op) -> Completion:
        node = op.node or self._context.pinned_to or self._nodes[self._turn % len(self._nodes)]
        given, timeout_s = False, self._context.timeout_ms / 1000
        if (op.f, op.key) == ("read", None):
            timeout_s *= WHOLE
        try:
            async with asyncio.timeout(timeout_s) as bound:
                driver = await self._at(node)
                given = op.f != "read"
                outcome = Outcome("ok", await _perform(driver, op))
            if bound.expired():  # and the driver made an answer of its cancellation
                raise TimeoutError  # noqa: TRY301  (as the bound does)
        except Refused as refused:
            return completion(Outcome("fail", error=str(refused)), node, op.value)
        except (OSError, EOFError, TimeoutError) as error:
            outcome = Outcome("info" if given else "fail", error=type(error).__name__)
        except (ValueError, LookupError, struct.error) as error:
            what = f"{WRONG_ANSWER}: {type(error).__name__}: {error}"
            outcome = Outcome("info" if given else "fail", error=what)
        if outcome.type != "ok":
            self._turn += 1
            self._close()
        return completion(outcome, node, op.value)

    async def _at(self, node: str) -> Driver:
        if self._driver is None or self._node != node:
            self._close()
            self._driver = await self._opens(replace(self._context, connect=self._dial(node)), node)
            self._node = node
        return self._driver

    def _dial(self, node: str) -> Connect:
        """Return what connects a driver of a node: to that first, then to where it is sent."""
        is_there = False

        async def connect(endpoint: Endpoint) -> socket:
            nonlocal is_there
            at = [
                name for name in self._nodes if self._context.endpoint(name, "CLIENT") == endpoint
            ]
            is_there = is_there or node in at
            if at and not is_there:
                raise ValueError(f"a driver of {node} connects to {at[0]}")
            return await self._context.connect(endpoint)

        return connect

    def _close(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    async def close(self) -> None:
        self._close()


async def _perform(driver: Driver, op: Op) -> Value:
    match op.f, op.key:
        case "add", None:
            await _change("add", driver.add(op.value))
        case "read", None:
            elements = await driver.all()
            if isinstance(elements, str) or not isinstance(elements, Collection):
                raise _none_of_its_answers("all", elements)
            if wrong := [element for element in elements if not isinstance(element, str)]:
                raise _none_of_its_answers("all", wrong[0])
            return sorted(elements)
        case "write", str(key):
            await _change("put", driver.put(key, op.value))
        case "read", str(key):
            value = await driver.get(key)
            if not isinstance(value, str | None):
                raise _none_of_its_answers("get", value)
            return value
        case _:
            raise AssertionError(f"no operation {op.f}")
    return None


async def _change(name: str, change: Awaitable[object]) -> None:
    """Wait for a change. An answer to it may be an error, which nobody would look at."""
    answer = await change
    if answer is not None:
        raise _none_of_its_answers(name, answer, "nothing")


def _none_of_its_answers(name: str, answer: object, wanted: str = "text") -> ValueError:
    return ValueError(f"{name} of a driver answers with {wanted}, not with {ascii(answer)[:80]}")
