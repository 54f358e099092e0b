"""Workload `brokers`: fake brokers that register, send heartbeats, are fenced and replaced.

Workers contend for a few broker ids, each in the name of incarnations of its own. An id belongs to
the incarnation that registered last: a controller refuses another one as long as that one's session
is good, and whatever an incarnation says once it was replaced (a *zombie*: it does not know). So
that sessions end and incarnations come and go, every worker turns to the next group of ids after
`stage` operations, so that another worker comes to the one that it left; when it comes back it uses
a new incarnation now and then, and now and then speaks for the one before.

A heartbeat says that the broker has all metadata, or that it has none; one that has none must not
unfence a fenced broker. A read asks the active controller's CLIENT listener whether clients see the
broker. What a client may see is the model `broker` (`porcupine_py.models.brokers`).

Where a system promises less (`reads_lag`), any broker answers reads, and heartbeats that change
nothing are answered by a controller from memory. Then registrations must be linearizable, and the
rest is judged by what one controller may not take back (`checkers.guarantees.growth`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from checkers.registry import CheckSpec
from cluster.client.broker_client import BrokerClient, FakeBroker
from cluster.client.caller import Outcome
from cluster.values import valueclass
from workloads.base import ClientContext, Completion, Op, Option, Role, WorkloadKind
from workloads.keyed import Plain, TargetClient

if TYPE_CHECKING:
    from workloads.shapes import Shapes

FIRST_BROKER_ID: Final = 2_000
"""Fake brokers are numbered from here, so that no node is taken for one."""
CAUGHT_UP: Final = 2**62
"""A metadata offset above all."""
BEHIND: Final = 0

OPTIONS = {
    "brokers": Option(8, "how many broker ids there are", 1, 1_000),
    "group": Option(2, "how many of them a worker uses at a time", 1, 1_000),
    "stage": Option(60, "how many operations a worker stays with a group", 1, 100_000),
}
_READS_FRACTION = 0.3


class BrokersClient(TargetClient):
    """One process's client, which keeps the epochs that it was given; registrations stay."""

    def __init__(self, context: ClientContext) -> None:
        super().__init__(context)
        self._client = BrokerClient(context.client)
        self._epochs: dict[tuple[str, str], int] = {}

    async def invoke(self, op: Op) -> Completion:
        assert op.key is not None, "brokers have ids"
        node = self._target.choose("CLIENT" if op.f == "read" else "CONTROLLER")
        broker_id = FIRST_BROKER_ID + int(op.key)
        if op.f == "read":
            peer, lags = self._context.peer(node, "CLIENT"), self._context.reads_lag
            outcome = await self._client.is_alive(peer, broker_id, lags=lags)
            if outcome.type == "ok":
                outcome = Outcome("ok", {"alive": outcome.value})
        else:
            assert isinstance(op.value, dict)
            incarnation = op.value["incarnation"]
            broker = FakeBroker(broker_id, incarnation)
            outcome = await self._speak(op, node, broker, (op.key, incarnation))
        return self._completion(node, outcome, op.value)

    async def _speak(
        self, op: Op, node: str, broker: FakeBroker, identity: tuple[str, str]
    ) -> Outcome:
        controller = self._context.peer(node)
        if op.f == "register":
            outcome = await self._client.register(controller, broker)
            if outcome.type == "ok":
                self._epochs[identity] = outcome.value
                outcome = Outcome("ok", {"epoch": outcome.value})
            return outcome
        epoch = self._epochs.get(identity)
        if epoch is None:
            return Outcome("fail", error="not-registered")  # nothing was sent
        assert isinstance(op.value, dict)
        outcome = await self._client.heartbeat(
            controller,
            broker,
            epoch,
            BEHIND if op.value["behind"] else CAUGHT_UP,
            want_fence=op.f == "fence",
        )
        if outcome.type == "ok":
            return Outcome("ok", {"epoch": epoch, "fenced": outcome.value["fenced"]})
        return outcome


@valueclass
class Brokers(Plain):
    """The workload with its options."""

    makes = BrokersClient
    brokers: int
    group: int
    stage: int
    name: str = "brokers"

    def operations(self, worker: int, random: Random, role: Role) -> Iterator[Op]:
        """Register, keep alive, fence and look; `w<worker>.<n>` names an incarnation."""
        fractions = {Role.READER: 1.0, Role.WRITER: 0.0, Role.MIXED: _READS_FRACTION}
        incarnations: dict[int, int] = {}
        count = 0
        while True:
            first = (worker + count // self.stage) * self.group
            if count % self.stage == 0:
                for offset in range(self.group):
                    broker = (first + offset) % self.brokers
                    known = incarnations.get(broker, 0)
                    incarnations[broker] = known + (random.random() < 0.3)
            broker = (first + random.randrange(self.group)) % self.brokers
            number = incarnations[broker]
            if number and random.random() < 0.25:
                number -= 1
            incarnation = f"w{worker}.{number}"
            count += 1
            if random.random() < fractions[role]:
                yield Op("read", str(broker))
            else:
                yield _operation(random, str(broker), incarnation)

    def shapes(self) -> Shapes:
        """What a broker says, and what is seen of it."""
        from workloads.shapes import Incarnation, Said, one_of  # noqa: PLC0415

        key = one_of([str(broker) for broker in range(self.brokers)])
        said = {"key": key, "value": Said}
        registers = {"key": key, "value": Incarnation}
        return {"read": {"key": key}, "register": registers, "heartbeat": said, "fence": said}

    def final_operations(self) -> Sequence[Op]:
        return tuple(Op("read", str(broker)) for broker in range(self.brokers))

    def checks(self, *, reads_lag: bool = False) -> tuple[CheckSpec, ...]:
        """Every broker id is a linearizable registration; or its epochs are, and only grow."""
        registrations = {"functions": ["register"]} if reads_lag else {}
        return (
            CheckSpec("linearizable", {"model": "broker", **registrations}),
            *([CheckSpec("growth", {"model": "broker"})] if reads_lag else []),
        )


def _operation(random: Random, broker: str, incarnation: str) -> Op:
    choice = random.random()
    if choice < 0.3:
        return Op("register", broker, {"incarnation": incarnation})
    behind = random.random() < 0.3
    f = "fence" if choice < 0.45 else "heartbeat"
    return Op(f, broker, {"incarnation": incarnation, "behind": behind})


def create(options: Mapping[str, Any]) -> Brokers:
    """Make the workload from validated options."""
    return Brokers(**{**options, "group": min(options["group"], options["brokers"])})


KIND = WorkloadKind(
    "brokers",
    "brokers register, send heartbeats, are fenced and replaced; linearizable registrations",
    OPTIONS,
    create,
)
