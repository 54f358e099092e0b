"""Faults of log directories: one of a broker goes, or a replica moves from one to another.

`log-dir-loss`: a correct broker answers for what was there with KAFKA_STORAGE_ERROR, reports the
directory to the controller, which lets others lead, and serves everything else (KIP-112, KIP-858).
It is back when the broker is started with the directory in its place.

`log-dir-move`: an administrator's request (AlterReplicaLogDirs, KIP-113), which must end under
whatever else happens, and lose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.backends.base import BackendError, NodeState
from cluster.node.errors import ErrorCode
from cluster.node.protocol.data_messages import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from cluster.node.protocol.messages import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    TopicName,
    i32,
)
from nemeses.active_faults import keeper
from nemeses.base import Injection, Parameters, View, detachable_of
from nemeses.node_fault import NodeFault, Seen, end, start_if_dead, takeover
from nemeses.queries import ask, until

NOTICED_S = 15.0
"""How long a broker may take until it meets the loss; it saves high watermarks every 5 s."""
BACK_S = 30.0
"""How long a started broker may take until it has opened its logs."""


MOVED_S = 30.0
"""How long a move may take: the controller has to record it, and other faults may be in its way."""


class LogDirLoss(NodeFault):
    """The last log directory of a node is taken away until the heal, which restarts the node.

    Parameters: targets (default random). Needs nodes with several log directories
    (`kraftprobe.log.dirs` in `node_settings`).
    """

    name = "log-dir-loss"
    needs = "detachable"
    favourites = ("random", "leader", "partition-leader")

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:  # noqa: ARG002
        incarnation = view.backend.incarnation(node)
        name = await detachable_of(view).detach(node)
        return Seen({"directory": name, "incarnation": incarnation})

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Wait until the broker says that a directory is offline."""

        async def notices() -> bool | None:
            return True if await _offline(view, node) else None

        if await until(notices, NOTICED_S):
            return Seen({"offline": True})
        if state := await takeover(view, node, injection):
            return Seen({"state": state})
        return Seen(wrong=f"{node} did not notice within {NOTICED_S:g} s that a directory is gone")

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Give it back; start the node anew, unless another fault holds it down."""
        await detachable_of(view).attach(node)
        await end(view.backend, node)
        await start_if_dead(view, node, injection)

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:
        """Wait until the broker says that it has all directories."""

        async def whole() -> bool | None:
            return True if await _offline(view, node) == 0 else None

        if await until(whole, BACK_S):
            return Seen({"offline": False})
        other = await keeper(view, node, injection)
        if other or await view.backend.state(node) is not NodeState.RUNNING:
            return Seen({"left_to": other or "another fault"})
        return Seen(wrong=f"{node} does not have all of its log directories after the heal")


class LogDirMove(NodeFault):
    """A replica of the node moves to another of its log directories.

    Parameters: targets (default random). The replica and the directory are drawn. It bit when the
    broker describes the replica there and no future one; nothing is left to undo.
    """

    name = "log-dir-move"
    favourites = ("random", "leader", "partition-leader")

    def _taken_nodes(self, view: View) -> dict[str, str]:  # noqa: ARG002
        """Return none: an administrator may ask again, also while a replica is on its way."""
        return {}

    async def choose_details(
        self, view: View, nodes: tuple[str, ...], parameters: Parameters
    ) -> dict[str, dict[str, Any]]:
        """Draw what moves where; BackendError where there is nothing to move."""
        chosen = await super().choose_details(view, nodes, parameters)
        return {node: {**chosen[node], **await _draw(view, node)} for node in nodes}

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:
        topic = AlterReplicaLogDirTopic(
            name=TopicName(chosen["topic"]), partitions=(i32(chosen["partition"]),)
        )
        request = AlterReplicaLogDirsRequest(
            dirs=(AlterReplicaLogDir(path=chosen["to"], topics=(topic,)),)
        )
        answer = await ask(view, view.backend.endpoint(node, "CLIENT"), request)
        if not isinstance(answer, AlterReplicaLogDirsResponse):
            return Seen(wrong=f"{node} did not answer")
        error = answer.results[0].partitions[0].error_code
        incarnation = view.backend.incarnation(node)
        wrong = "" if error is ErrorCode.none else f"{node} refused to move it: {error.name}"
        return Seen({"incarnation": incarnation}, wrong)

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Wait until the replica is there."""
        chosen = injection.detail["chosen"][node]
        replica = (chosen["topic"], chosen["partition"])

        async def arrives() -> bool | None:
            found = [row for row in await _replicas(view, node) if row[:2] == replica]
            return True if found == [(*replica, chosen["to"], False)] else None

        if await until(arrives, MOVED_S):
            return Seen()
        if state := await takeover(view, node, injection):
            return Seen({"state": state})
        name = f"{chosen['topic']}-{chosen['partition']}"
        return Seen(wrong=f"{name} of {node} is not in {chosen['to']} after {MOVED_S:g} s")

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Leave it there."""

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:  # noqa: ARG002
        """Nothing is left to measure: a move that has not ended goes on by itself."""
        return Seen()


async def _draw(view: View, node: str) -> dict[str, Any]:
    """Draw a replica of a broker and another log directory for it, maybe the one that it leaves.

    Raises BackendError.
    """
    described = await _describe(view, node)
    paths = [row.log_dir for row in described if row.error_code is ErrorCode.none]
    rows = sorted(await _replicas(view, node), key=lambda row: row[3])
    places = {row[:2]: row[2] for row in rows}  # where it moves to counts, if it does
    if len(paths) < 2:
        raise BackendError(f"{node} has no other log directory")
    if not places:
        raise BackendError(f"{node} has no replica that could move")
    (topic, partition), home = view.random.choice(list(places.items()))
    target = view.random.choice([path for path in paths if path != home])
    return {"topic": topic, "partition": partition, "from": home, "to": target}


async def _replicas(view: View, node: str) -> list[tuple[str, int, str, bool]]:
    """List the replicas of a broker: topic, partition, log directory, whether a future one."""
    return [
        (str(topic.name), int(row.partition_index), str(directory.log_dir), row.is_future_key)
        for directory in await _describe(view, node, None)
        for topic in directory.topics
        for row in topic.partitions
    ]


async def _describe(
    view: View, node: str, topics: tuple[()] | None = ()
) -> tuple[DescribeLogDirsResult, ...]:
    """Ask a broker for its log directories; nothing when it does not answer."""
    request = DescribeLogDirsRequest(topics=topics)
    answer = await ask(view, view.backend.endpoint(node, "CLIENT"), request)
    return answer.results if isinstance(answer, DescribeLogDirsResponse) else ()


async def _offline(view: View, node: str) -> int | None:
    """Count the log directories that a broker says are offline; None when it does not answer."""
    errors = [result.error_code for result in await _describe(view, node)]
    return errors.count(ErrorCode.kafka_storage_error) if errors else None
