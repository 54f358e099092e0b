"""Backend `docker`: containers as hosts, with all that faults can do to them.

Most abilities act inside of a container, over its channel. Disks are another matter: a mount needs
more than NET_ADMIN, so the failing filesystem is mounted outside, over the data folder in the run
folder, before the container is made, which then sees it as the folder that it is given. What a user
without privilege mounts is open to that user alone, which is why nodes run as the harness's user.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from cluster.backends.abilities import Abilities, Host
from cluster.backends.base import BackendError
from cluster.backends.docker.docker_hosts import DockerProvider
from cluster.backends.docker.image import Say
from cluster.backends.hosted import HostedBackend
from cluster.backends.machine.disks import FuseDisks
from cluster.backends.machine.equip import local_machines
from cluster.backends.terms import Need
from cluster.systems.base import System


class DockerBackend(HostedBackend):
    """See `cluster.backends.hosted.HostedBackend`. `say` reports images that are built."""

    def __init__(
        self,
        system: System,
        run_folder: Path,
        node_count: int,
        run_id: str,
        *,
        needs: Collection[Need] = (),
        say: Say = lambda _: None,
    ) -> None:
        self._containers = DockerProvider(
            run_folder,
            run_id,
            say=say,
            prepare_folder=self._prepare_folder,
            reads=system.reads,
            image=system.image,
        )
        super().__init__(
            self._containers,
            system,
            run_folder,
            node_count,
            run_id,
            needs=frozenset(needs) - {"disks"},
        )
        self._here = local_machines(self)
        self._disks = FuseDisks(self, self._here)
        self._needs_disks = "disks" in needs
        if self._needs_disks:  # now: what is mounted by an `up` that fails is to go as well
            self.surround(self._disks)

    async def _prepare_folder(self, node: str, folder: Path) -> None:
        assert folder == self.node_folder(node), "provider and backend mean one folder"
        if self._needs_disks:
            await self._disks.prepare(node)

    async def _check_disk(self, node: str) -> Mapping[str, str]:
        """Refuse a node that would write below its failing filesystem, which is measured here."""
        look = ("stat", "-c", "%d", str(self.system.data_folder(self.node_folder(node))))
        here = await self._here[node].run(look)
        there = await self._containers.hosts[node].as_node.run(look)
        if here.stdout != there.stdout:
            raise BackendError(
                f"{node}: the docker engine does not see what is mounted here: run the harness in "
                "the engine's own mount namespace"
            )
        return {}

    def _equip(self) -> Abilities:
        if self._needs_disks:
            self.before_start.append(self._check_disk)
        return replace(super()._equip(), disks=self._disks)

    def _machines(self) -> Mapping[str, Host]:
        return {node: host.as_node for node, host in self._containers.hosts.items()}
