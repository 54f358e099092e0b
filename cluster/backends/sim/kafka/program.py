"""What the nodes of a world run when they are released KafkaRaftClients.

Each node has a release of its own, or is this repository's raft module. As in a real quorum, a
request has the highest version of its API that both sides know.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import PurePath
from typing import Any, Final

from cluster.backends.sim.kafka import frames
from cluster.backends.sim.kafka.frames import Effect
from cluster.backends.sim.kafka.host import KafkaProcess
from cluster.backends.sim.kafka.jvm import Jvm, jvm_of, on_one_processor
from cluster.backends.sim.kafka.machine import Archive
from cluster.backends.sim.kafka.own import RaftProcess, voter_set
from cluster.backends.sim.kafka.replica import KafkaReplica
from cluster.backends.sim.kafka.steps import Spin
from cluster.backends.sim.process import Process
from cluster.backends.sim.world import OwnProgram, SimNode, SimWorld
from cluster.backends.terms import BackendError
from cluster.node.kraft.quorum.config import CHECK_QUORUM_FETCH_TIMEOUTS
from cluster.node.protocol.apis import SPOKEN, ApiKey, VersionRange
from cluster.systems.kafka_raft import OWN, REQUEST_TIMEOUT, SETTINGS, config_of, node_runs
from cluster.systems.kraft import FETCH_TIMEOUT, NODE_SETTINGS, REGISTRATION, cluster_id_of

SPIN_MS_MAX: Final = 10_000.0
"""How long a node may poll without waiting."""
_ANY_DIRECTORY: Final = uuid.UUID(int=0)
_FIRST_BOOTSTRAP: Final = -2
"""The id by which Kafka calls the first bootstrap server; those behind it count down."""


class KafkaProgram:
    """See `cluster.backends.sim.world.Program`."""

    def __init__(
        self,
        world: SimWorld,
        runs: Sequence[str],
        node_settings: Mapping[str, Any],
        *,
        is_dynamic: bool,
    ) -> None:
        """`runs`: what n1, n2, ... run (`node_runs`). Raises BackendError, SettingError."""
        self._world = world
        self._runs = dict(zip(world.names, node_runs(runs, len(world.names)), strict=True))
        self._jvms: dict[str, Jvm] = {
            run: jvm_of(run) for run in dict.fromkeys(self._runs.values()) if run != OWN
        }
        self._config = config_of(node_settings)
        fetch_timeout_ms = float(self._config[FETCH_TIMEOUT])
        self._check_quorum_timeout_ms = CHECK_QUORUM_FETCH_TIMEOUTS * fetch_timeout_ms
        self._versions = {run: _api_versions(jvm) for run, jvm in self._jvms.items()}
        self.spins: list[Spin] = []
        """Times in which a node polled without waiting, oldest first."""
        self._archive = Archive()
        self._is_dynamic = is_dynamic
        self._directories = {
            node.name: _directory(world.seed, node.name) for node in world.nodes.values()
        }
        voters = {
            node.node_id: self._directories[node.name] if is_dynamic else _ANY_DIRECTORY
            for node in world.nodes.values()
            if node.name in world.voters
        }
        self._replicas = {
            name: KafkaReplica(
                node.node_id,
                self._directories[name],
                {} if is_dynamic and node.node_id not in voters else voters,
                is_static=not is_dynamic,
            )
            for name, node in world.nodes.items()
            if self._runs[name] != OWN
        }
        self._own: OwnProgram | None = None
        if OWN in self._runs.values():
            own = {key: value for key, value in node_settings.items() if key in NODE_SETTINGS}
            settings = {**SETTINGS, **own, REGISTRATION: 0}
            self._own = OwnProgram(world, settings, None, "sim")
        self._agree_on_versions()
        if is_dynamic:
            for name in world.voters:
                if (jvm := self._jvms.get(self._runs[name])) is not None:
                    jvm.call(frames.format_disk(world.nodes[name].node_id, voters.items()))

    def _agree_on_versions(self) -> None:
        """Bound the versions of each release's requests by what it sends them to knows.

        Raises BackendError for two nodes without a common version of an API.
        """
        names = self._world.names
        for release, jvm in self._jvms.items():
            for number, name in enumerate(names):
                run = self._runs[name]
                if run == release:
                    continue
                known = [self._world.nodes[name].node_id]
                if name in self._world.voters:
                    known.append(_FIRST_BOOTSTRAP - number)
                for api, own in self._versions[release].items():
                    other = self._versions[run].get(api) if run != OWN else SPOKEN.get(ApiKey(api))
                    version = None if other is None else own.highest_common(other)
                    if version is None:
                        raise BackendError(
                            f"{name} ({run}) and Kafka {release} know no common version of "
                            f"{ApiKey(api).name}: give other releases"
                        )
                    if version < own.highest:
                        for node_id in known:
                            jvm.call(frames.cap(api, version, node_id))

    def folders(self, node: SimNode) -> Iterable[PurePath]:
        return (PurePath("/sim", node.name, "metadata"),)

    def process(self, node: SimNode) -> KafkaProcess | Process:
        release = self._runs[node.name]
        if release == OWN:
            return self._own_process(node)
        return KafkaProcess(
            self._world,
            node,
            self._jvms[release],
            self._replicas[node.name],
            partial(self._start, node),
            versions=self._versions[release],
            request_timeout_ms=float(self._config[REQUEST_TIMEOUT]),
            check_quorum_timeout_ms=self._check_quorum_timeout_ms,
            archive=self._archive,
            spins=self.spins,
        )

    def _own_process(self, node: SimNode) -> RaftProcess:
        world = self._world
        first = None
        if self._is_dynamic and node.name in world.voters:
            first = voter_set(
                [(world.endpoint(name), self._directories[name]) for name in world.voters]
            )
        assert self._own is not None, "a node runs it"
        config = self._own.config(node, is_static=not self._is_dynamic)
        directory = self._directories[node.name]
        return RaftProcess(world, node, config, directory, self._archive, first)

    def wipe(self, node: SimNode) -> None:
        """Refuse: a node that is formatted anew would have another directory id."""
        raise BackendError(f"the disk of {node.name} cannot be replaced in a world of kafka-raft")

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

    def hold_processor(self) -> AbstractContextManager[None]:
        return on_one_processor(self._jvms.values())

    def _start(self, node: SimNode, now_ms: int, seed: int) -> frames.Start:
        world = self._world
        voters = [world.endpoint(name) for name in world.voters]
        return frames.Start(
            node.node_id,
            now_ms,
            self._directories[node.name],
            seed,
            cluster_id_of("sim"),
            True,  # noqa: FBT003  (may become a voter)
            self._config,
            () if self._is_dynamic else voters,
            voters if self._is_dynamic else (),
        )


def _api_versions(jvm: Jvm) -> Mapping[int, VersionRange]:
    """Begin a world in a JVM; returns the versions of raft's APIs that its release knows."""
    known = jvm.call(frames.reset(logs=False))
    return {row[1]: VersionRange(row[2], row[3]) for row in known if row[0] == Effect.API}


def _directory(seed: object, name: str) -> uuid.UUID:
    bits = random.Random(f"{seed}/directory/{name}").getrandbits(128)
    return uuid.UUID(int=bits, version=4)
