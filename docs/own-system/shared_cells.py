"""How Kraftprobe runs the nodes of `shared_cells_node.py`, and what clients do to them."""

import asyncio
import json
from pathlib import Path

from checkers.registry import CheckSpec
from cluster.client.caller import Outcome
from cluster.systems.kinds import SettingError, SystemKind
from cluster.systems.plain import PlainLayout, PlainSystem
from cluster.values import valueclass
from workloads import register
from workloads.base import WorkloadKind, completion
from workloads.keyed import Target

PROGRAM = Path(__file__).with_name("shared_cells_node.py")
READS = ("majority", "local")


class SharedCells(PlainSystem):
    name = "shared-cells"
    reads = (PROGRAM.parent,)  # containers see this folder, too

    def __init__(self, request):
        self._reads = request.options.get("reads", READS[0])

    def command(self, node):
        # Where the backend carries peers' messages over links of its own, it names their ends.
        routes = {peer.node_id: peer for peer in node.routes}
        config = {
            "client": [node.client.host, node.client.port],
            "peer": [node.controller.host, node.controller.port],
            "peers": [
                [end.host, end.port]
                for end in (routes.get(peer.node_id, peer) for peer in node.voters)
            ],
            "data": str(self.data_folder(node.folder)),
            "reads": self._reads,
        }
        return (node.interpreter, str(PROGRAM), json.dumps(config))


def check(request):
    if request.node_settings:
        raise SettingError("node_settings: shared cells have none")
    if request.options.get("reads", READS[0]) not in READS:
        raise SettingError(f"system_options.reads: {' or '.join(READS)}")


SYSTEM = SystemKind(
    name=SharedCells.name,
    title="replicated registers without a leader",
    layout=PlainLayout(),
    check=check,
    create=SharedCells,
    metadata_quorum=False,
    options={"reads": "majority, or local: a planted bug"},
    workloads=frozenset({"shared-cells"}),
    backends=frozenset({"local", "netns", "docker"}),
)


@valueclass
class Cells(register.Register):
    """The operations of workload `register`; every key must be linearizable."""

    name: str = "shared-cells"

    def client(self, context):
        return Client(context)

    def checks(self, *, reads_lag=False):  # noqa: ARG002
        return (CheckSpec("linearizable", {"model": "register"}),)


class Client:
    def __init__(self, context):
        self._context, self._target = context, Target(context)

    async def invoke(self, op):
        node = self._target.choose()
        outcome = await self._ask(node, {op.f: op.key, "value": op.value})
        self._target.learn(node, outcome)
        return completion(outcome, node, op.value)

    async def _ask(self, node, message):
        endpoint, sent = self._context.endpoint(node, "CLIENT"), False
        try:
            async with asyncio.timeout(self._context.timeout_ms / 1000):
                connection = await self._context.connect(endpoint)
                reader, writer = await asyncio.open_connection(sock=connection)
                try:
                    sent = True
                    writer.write(json.dumps(message).encode() + b"\n")
                    answer = json.loads(await reader.readline())
                finally:
                    writer.close()
        except (OSError, ValueError, TimeoutError) as error:
            # What was sent may have had its effect, whatever became of the answer.
            return Outcome("info" if sent else "fail", error=type(error).__name__)
        if "error" in answer:
            return Outcome("info", error=answer["error"])
        return Outcome("ok", answer.get("value"))

    async def close(self):
        """Each operation closes what it opened."""


WORKLOAD = WorkloadKind(
    "shared-cells",
    "registers written and read over lines of JSON; linearizable per key",
    register.OPTIONS,
    lambda options: Cells(**options),
)
