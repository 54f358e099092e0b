"""What the nodes of a world run when they are released KafkaRaftClients."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import PurePath
from typing import Any, Final

from cluster.backends.sim.kafka import frames
from cluster.backends.sim.kafka.frames import Effect
from cluster.backends.sim.kafka.host import Archive, KafkaProcess, Spin
from cluster.backends.sim.kafka.jvm import Jvm, jvm_of
from cluster.backends.sim.kafka.replica import KafkaReplica
from cluster.backends.sim.world import SimNode, SimWorld
from cluster.backends.terms import BackendError
from cluster.systems.kafka_raft import REQUEST_TIMEOUT, config_of
from cluster.systems.kraft import cluster_id_of

SPIN_MS_MAX: Final = 10_000.0
"""How long a node may poll without waiting."""
_ANY_DIRECTORY: Final = uuid.UUID(int=0)


class KafkaProgram:
    """See `cluster.backends.sim.world.Program`."""

    def __init__(
        self, world: SimWorld, release: str, node_settings: Mapping[str, Any], *, is_dynamic: bool
    ) -> None:
        """Raises BackendError, SettingError."""
        self._world = world
        self._jvm: Jvm = jvm_of(release)
        self._config = config_of(node_settings)
        known = self._jvm.call(frames.reset(logs=False))
        self._versions = {row[1]: (row[2], row[3]) for row in known if row[0] == Effect.API}
        self.spins: list[Spin] = []
        """Times in which a node polled without waiting, oldest first."""
        self._archive = Archive()
        self._is_dynamic = is_dynamic
        directories = {
            node.node_id: _directory(world.seed, node.name) for node in world.nodes.values()
        }
        voters = {
            node.node_id: directories[node.node_id] if is_dynamic else _ANY_DIRECTORY
            for node in world.nodes.values()
            if node.name in world.voters
        }
        self._replicas = {
            name: KafkaReplica(
                node.node_id,
                directories[node.node_id],
                {} if is_dynamic and node.node_id not in voters else voters,
                is_static=not is_dynamic,
            )
            for name, node in world.nodes.items()
        }
        if is_dynamic:
            for voter in voters:
                self._jvm.call(frames.format_disk(voter, voters.items()))

    def folders(self, node: SimNode) -> Iterable[PurePath]:
        """See `Program.folders`."""
        return (PurePath("/sim", node.name, "metadata"),)

    def process(self, node: SimNode) -> KafkaProcess:
        """See `Program.process`."""
        return KafkaProcess(
            self._world,
            node,
            self._jvm,
            self._replicas[node.name],
            partial(self._start, node),
            versions=self._versions,
            request_timeout_ms=float(self._config[REQUEST_TIMEOUT]),
            archive=self._archive,
            spins=self.spins,
        )

    def wipe(self, node: SimNode) -> None:
        """Refuse: the JVM keeps the disks."""
        raise BackendError(f"the disk of {node.name} cannot be replaced: it is in the JVM")

    def complaints(self) -> Iterable[tuple[str, str]]:
        """See `Program.complaints`: a thread that polls without waiting for so long burns a core.

        A client of raft has something to do at once for a moment at the most: what it waits for is
        a message, or a time-out that lies ahead.
        """
        for spin in self.spins:
            if spin.length_ms >= SPIN_MS_MAX:
                yield (
                    "busy-poll",
                    f"{spin.node} polled without waiting for {spin.length_ms / 1000:.1f} s",
                )
                return

    def _start(self, node: SimNode, now_ms: int, seed: int) -> frames.Start:
        world = self._world
        voters = [self._address(name) for name in world.voters]
        return frames.Start(
            node.node_id,
            now_ms,
            self._replicas[node.name].directory,
            seed,
            cluster_id_of("sim"),
            True,  # noqa: FBT003  (may become a voter)
            self._config,
            () if self._is_dynamic else voters,
            voters if self._is_dynamic else (),
        )

    def _address(self, name: str) -> frames.Address:
        endpoint = self._world.endpoint(name)
        return frames.Address(endpoint.node_id, endpoint.host, endpoint.port)


def _directory(seed: object, name: str) -> uuid.UUID:
    bits = random.Random(f"{seed}/directory/{name}").getrandbits(128)
    return uuid.UUID(int=bits, version=4)
