"""Asks simulated nodes for their quorum all the time, as administrators do (DescribeQuorum).

`QuorumPolls(world, watcher)` shows the answers to `checkers.invariants.descriptions`, and with them
the changes of voters that were asked for and acknowledged. Every node is also asked, in turn, for
changes of voters that each of them refuses (`WRONG`), which `checkers.invariants.answers` judges. A
node is asked between two of its events, over no link, and answers by what it knows and changes
nothing: so a world is the same whether it is asked or not.
"""

from __future__ import annotations

import uuid
from itertools import cycle
from typing import Any, Final

from checkers.invariants.sight import node_name
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.world import SimNode, SimWorld
from cluster.node.assembly import Node
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import (
    AddVoterRequest,
    DescribeQuorumRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterRequest,
)
from cluster.node.kraft_version import KRAFT_VERSION
from cluster.node.log.batch.control import VoterListener
from cluster.node.protocol.messages import UpdateFeaturesRequest

_EVERY_MS: Final = 20.0
_WRONG_MS: Final = 100.0
_NOBODY: Final = 9_999
"""A replica that nobody is."""
_NOWHERE: Final = uuid.UUID("00000000-0000-4000-8000-00000000d1e5")
_NO_DIRECTORY: Final = uuid.UUID(int=0)
_LISTENER: Final = VoterListener("CONTROLLER", "127.0.0.1", 9)


def _add(
    directory: uuid.UUID = _NOWHERE,
    voter: int = _NOBODY,
    listeners: tuple[VoterListener, ...] = (_LISTENER,),
    cluster: str | None = None,
) -> AddVoterRequest:
    return AddVoterRequest(cluster, 1_000, voter, directory, listeners)


def _remove(
    directory: uuid.UUID = _NOWHERE, voter: int = _NOBODY, cluster: str | None = None
) -> RemoveVoterRequest:
    return RemoveVoterRequest(cluster, voter, directory)


WRONG: Final[dict[str, tuple[VoterRequest, tuple[str, ...]]]] = {
    "add a voter: no id": (_add(voter=-1), ("invalid_request",)),
    "add a voter: no directory": (_add(_NO_DIRECTORY), ("invalid_request",)),
    "add a voter: no listener": (_add(listeners=()), ("invalid_request",)),
    "add a voter: two of a name": (_add(listeners=(_LISTENER,) * 2), ("invalid_request",)),
    "add a voter: another cluster": (_add(cluster="another"), ("inconsistent_cluster_id",)),
    "remove a voter: no id": (_remove(voter=-1), ("invalid_request",)),
    "remove a voter: no directory": (_remove(_NO_DIRECTORY), ("invalid_request",)),
    "remove a voter: nobody": (_remove(), ("voter_not_found", "unsupported_version")),
    "remove a voter: another cluster": (_remove(cluster="another"), ("inconsistent_cluster_id",)),
    "update a voter: no epoch": (
        UpdateVoterRequest(None, -1, _NOBODY, _NOWHERE, (_LISTENER,), 0, 1),
        ("fenced_leader_epoch",),
    ),
}
"""By what is wrong: changes that no leader begins (KIP-853), and with which errors it says so."""


class QuorumPolls:
    """See the module."""

    def __init__(self, world: SimWorld, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher
        self._asked: dict[tuple[str, int], tuple[object, int]] = {}
        """By node and identity: requests for a change of a voter, and their numbers."""
        self._count = 0
        self._wrong = cycle(WRONG)
        for kind in (AddVoterRequest, RemoveVoterRequest):
            world.mesh.on_serve[kind].append(self._hear_change)
            world.mesh.on_reply[kind].append(self._look_at_change)
        world.mesh.on_reply[UpdateFeaturesRequest].append(self._look_at_upgrade)
        world.scheduler.call_later(_EVERY_MS, self._ask_all)
        world.scheduler.call_later(_WRONG_MS, self._ask_all_wrong)

    def _ask_all(self) -> None:
        for host, _, node in self._world.running():
            self._ask(host, node)
        self._world.scheduler.call_later(_EVERY_MS, self._ask_all)

    def _ask_all_wrong(self) -> None:
        what = next(self._wrong)
        for host, _, node in self._world.running():
            self._ask_wrong(host.name, node, what)
        self._world.scheduler.call_later(_WRONG_MS, self._ask_all_wrong)

    def _ask(self, host: SimNode, node: Node) -> None:
        answers: list[Any] = []
        node.raft.handle(DescribeQuorumRequest(), answers.append)
        (answer,), core = answers, node.raft._core
        rows = {node_name(row.replica_id): row for row in answer.voters}
        shown = {
            "leads": answer.error is ErrorCode.none,
            "leader_id": answer.leader_id,
            "epoch": answer.leader_epoch,
            "high_watermark": answer.high_watermark,
            "voters": {voter: str(row.directory_id) for voter, row in rows.items()},
            "ends": {voter: row.log_end_offset for voter, row in rows.items()},
            "fetched_ms": {voter: row.last_fetch_timestamp_ms for voter, row in rows.items()},
            "log_start": core.log.start_offset,  # as Fetch would show
            "timeout_ms": core.config.check_quorum_timeout_ms,
            "wall_ms": host.clock.wall_ms(),
            "at_ms": self._world.scheduler.now_ms,
            "every_ms": _EVERY_MS,
        }
        self._watcher.take(host.name, "quorum-answer", shown)

    def _ask_wrong(self, name: str, node: Node, what: str) -> None:
        raft, (request, right) = node.raft, WRONG[what]
        if raft._quorum.busy:
            return  # an epoch or a vote is on its way to the disk: no request is looked at
        answers: list[Any] = []
        raft._inbound.handle(request, answers.append)
        shown = {
            "what": what,
            "errors": [answer.error.name for answer in answers],
            "right": [(*right, "not_leader_or_follower")],
        }
        self._watcher.take(name, "refusal", shown)

    def _hear_change(self, name: str, request: Any) -> None:
        self._count += 1
        self._asked[name, id(request)] = request, self._count
        shown = {"voter": node_name(request.voter_id), "number": self._count}
        self._watcher.take(name, "voter-asked", shown)

    def _look_at_change(self, name: str, request: Any, response: Any) -> None:
        _, number = self._asked.pop((name, id(request)), (None, 0))
        is_committed = getattr(request, "ack_when_committed", True)
        if response.error is ErrorCode.none and is_committed:
            shown = {
                "voter": node_name(request.voter_id),
                "directory": str(request.voter_directory_id),
                "is_addition": isinstance(request, AddVoterRequest),
                "number": number,
            }
            self._watcher.take(name, "voters-acknowledged", shown)

    def _look_at_upgrade(self, name: str, request: Any, response: Any) -> None:
        levels = {str(u.feature): int(u.max_version_level) for u in request.feature_updates}
        is_done = response.error_code is ErrorCode.none and not request.validate_only
        if is_done and levels.get(KRAFT_VERSION) == 1:
            shown = {"voter": None, "directory": "", "is_addition": True, "number": 0}
            self._watcher.take(name, "voters-acknowledged", shown)
