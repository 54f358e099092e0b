"""Moving the leaders of a topic's partitions on purpose: kills, controlled stops, elections."""

import signal
import time
from collections.abc import Callable
from itertools import cycle

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, PartitionMetadata

from tests.cluster.client.nodes import TIMEOUT_S, Nodes, eventually


class LeaderChanges:
    """Each `next` moves leaders of a topic, and returns how, once it is healed.

    Node by node, in turns: the leader of a partition is killed and started again, and leads what
    it preferably leads again; then another is stopped in a controlled way, and so on.
    """

    def __init__(self, nodes: Nodes, topic: str, partitions: int) -> None:
        self._nodes = nodes
        self._topic = topic
        self._count = partitions
        self._partitions = cycle(range(partitions))
        self._admin = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})
        self._kinds = cycle((self._kill, self._prefer, self._stop, self._prefer))

    def next(self) -> str:
        """Move leaders."""
        return next(self._kinds)()

    def _described(self) -> dict[int, PartitionMetadata]:
        """Ask until it is a broker that knows the topic: one that has just started may not."""

        def partitions() -> dict[int, PartitionMetadata]:
            found = self._admin.list_topics(self._topic, timeout=TIMEOUT_S)
            return found.topics[self._topic].partitions

        return eventually(partitions, lambda found: len(found) == self._count)

    def _leader(self, partition: int) -> int:
        return self._described()[partition].leader

    def _wait(self, what: str, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not until():
            assert time.monotonic() < deadline, f"{what}: {self._described()}"
            time.sleep(0.1)

    def _kill(self) -> str:
        partition = next(self._partitions)
        leader = self._leader(partition)
        process = self._nodes.processes[leader]
        process.send_signal(signal.SIGKILL)
        process.wait(TIMEOUT_S)
        self._replace(partition, leader)
        return f"kill {leader}"

    def _stop(self) -> str:
        partition = next(self._partitions)
        leader = self._leader(partition)
        code = self._nodes.stop(leader)
        assert code == 0, f"node {leader} ended with {code}: {self._nodes.stderr(leader)[-2000:]}"
        self._replace(partition, leader)
        return f"stop {leader}"

    def _replace(self, partition: int, old: int) -> None:
        """Wait for another leader, and bring the old one back in sync."""
        self._wait("no other leader", lambda: self._leader(partition) not in (old, -1))
        self._nodes.start(old)
        self._nodes.wait_until_listening(old)
        self._wait("not in sync again", self._all_in_sync)

    def _all_in_sync(self) -> bool:
        found = self._described().values()
        return all(set(partition.isrs) == set(partition.replicas) for partition in found)

    def _all_preferred(self) -> bool:
        found = self._described().values()
        return all(partition.leader == partition.replicas[0] for partition in found)

    def _prefer(self) -> str:
        places = [TopicPartition(self._topic, partition) for partition in self._described()]
        self._admin.elect_leaders(ElectionType.PREFERRED, places, request_timeout=TIMEOUT_S).result(
            TIMEOUT_S
        )
        self._wait("not led by the preferred", self._all_preferred)
        return "prefer"
