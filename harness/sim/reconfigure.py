"""Changes of the voter set in a simulated world, as an operator makes them (KIP-853).

Each is asked of whoever leads, again and again until it is known to be committed: an operator does
not walk away from half a change, and the next one must not begin on top of it. What an operator
must not do is not done here either, because losing a majority by it would be no bug of the node:

- a voter loses its disk only while all changes are done and the others are a majority by far;
- nobody is removed while a lost voter still counts, and two voters are always left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.backends.base import NodeState
from cluster.backends.sim.world import SimWorld
from cluster.node.assembly import Node
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import ReplicaKey
from cluster.node.kraft.voter_messages import AddVoterRequest, RemoveVoterRequest
from cluster.node.kraft_version import KRAFT_VERSION
from cluster.node.log.control import VoterListener
from cluster.node.protocol.messages import FeatureUpdateKey, UpdateFeaturesRequest, milliseconds
from harness.sim.watch import Watch

TRY_AGAIN_MS = 40.0
TIMEOUT_MS = 1_500.0
LEAST_VOTERS = 2
_UPGRADE = 1

Make = Callable[[Node], object | None]
"""The request of a change, for the node that leads; None when there is nothing left to do."""

_DONE = frozenset({ErrorCode.none, ErrorCode.duplicate_voter, ErrorCode.voter_not_found})
"""Answers after which a change is in force and committed, or cannot be made at all."""


@dataclass(slots=True)
class Reconfigurer:
    """The operator of one world."""

    world: SimWorld
    watch: Watch
    lost: dict[str, ReplicaKey] = field(default_factory=dict)
    """Nodes whose disk was wiped and that have not been replaced, and who they were."""
    busy: int = 0
    """Changes that are under way."""

    def upgrade(self) -> None:
        """Finalize kraft.version 1: from then on the voters are in the log."""

        def make(leader: Node) -> object | None:
            if leader.raft.kraft_version >= 1:
                return None
            update = FeatureUpdateKey(
                feature=KRAFT_VERSION,
                max_version_level=1,  # type: ignore[arg-type]  # kio's i16 is an int
                upgrade_type=_UPGRADE,  # type: ignore[arg-type]  # likewise
            )
            return UpdateFeaturesRequest(
                timeout=milliseconds(TIMEOUT_MS), feature_updates=(update,), validate_only=False
            )

        self._begin(make)

    def add(self, name: str, done: Callable[[], None] | None = None) -> None:
        """Make a node a voter, once it is up and holds the log."""

        def make(leader: Node) -> object | None:
            node = self.node(name)
            if node is None or leader.raft.kraft_version < 1:
                return _WAIT
            if leader.raft.voters.key(node.raft.node_id) == node.raft.replica_key:
                return None
            where = self.world.endpoint(name)
            return AddVoterRequest(
                None,
                round(TIMEOUT_MS),
                node.raft.node_id,
                node.raft.replica_key.directory_id,
                (VoterListener("CONTROLLER", where.host, where.port),),
            )

        self._begin(make, done)

    def remove(self, name: str) -> None:
        """Make a voter an observer."""
        node_id = self.world.nodes[name].node_id

        def make(leader: Node) -> object | None:
            if leader.raft.kraft_version < 1 or self.lost:
                return _WAIT
            key = leader.raft.voters.key(node_id)
            if key is None or len(leader.raft.voters) <= LEAST_VOTERS:
                return None
            return RemoveVoterRequest(None, key.id, key.directory_id)

        self._begin(make)

    # -- lost disks ------------------------------------------------------------------------------

    def wipe(self, name: str, down_ms: float, repair_ms: float) -> bool:
        """Lose a node's disk and replace the voter later; whether it was possible."""
        node = self.node(name)
        leader = self.watch.leader()
        if node is None or leader is None or self.busy or self.lost:
            return False
        leading = self.node(leader)
        if leading is None or leading.raft.kraft_version < 1 or node.raft.kraft_version < 1:
            return False
        key, voters = node.raft.replica_key, leading.raft.voters
        if voters.is_voter(key) and len(voters) <= LEAST_VOTERS:
            return False
        was_voter = voters.is_voter(key)
        self.world.kill(name, "nothing")
        self.world.wipe(name)
        scheduler = self.world.scheduler
        scheduler.call_later(down_ms, lambda: self._start(name))
        if was_voter:
            self.lost[name] = key
            scheduler.call_later(repair_ms, lambda: self._repair(name, key))
        return True

    def _start(self, name: str) -> None:
        if self.world.nodes[name].state is NodeState.DEAD:
            self.world.start(name)

    def repair(self) -> None:
        """Replace lost voters now."""
        for name, key in tuple(self.lost.items()):
            self._repair(name, key)

    def _repair(self, name: str, key: ReplicaKey) -> None:
        """Remove the voter that was lost, then add what came in its place."""
        if self.lost.get(name) != key:
            return

        def make(leader: Node) -> object | None:
            if leader.raft.voters.key(key.id) != key:
                return None
            return RemoveVoterRequest(None, key.id, key.directory_id)

        def removed() -> None:
            if self.lost.pop(name, None) is not None:
                self.add(name)

        self._begin(make, removed)

    # -- one change ------------------------------------------------------------------------------

    def node(self, name: str) -> Node | None:
        """The node of a process that lives."""
        process = self.world.nodes[name].process
        return process.node if process is not None and process.alive else None

    def _begin(self, make: Make, done: Callable[[], None] | None = None) -> None:
        self.busy += 1

        def finished() -> None:
            self.busy -= 1
            if done is not None:
                done()

        self._try(make, finished)

    def _try(self, make: Make, finished: Callable[[], None]) -> None:
        again = self._again(lambda: self._try(make, finished))
        name = self.watch.leader()
        leader = None if name is None else self.node(name)
        if name is None or leader is None:
            again()
            return
        request = make(leader)
        if request is None and self._is_settled(leader):
            finished()
            return
        if request is None or request is _WAIT:
            again()
            return

        def answered(response: object) -> None:
            error = getattr(response, "error", None) or getattr(response, "error_code", None)
            if error in _DONE:
                finished()
            else:
                again()

        endpoint = self.world.endpoint(name)
        client = self.world.mesh.new_client()
        self.world.mesh.request(client, None, endpoint, request, TIMEOUT_MS, _once(answered))

    @staticmethod
    def _is_settled(leader: Node) -> bool:
        """Whether the voters in force at a leader are committed, and it may say so."""
        committed = leader.raft.high_watermark
        return committed is not None and leader.raft.voters_offset < committed

    def _again(self, again: Callable[[], None]) -> Callable[[], None]:
        def later() -> None:
            self.world.scheduler.call_later(TRY_AGAIN_MS, again)

        return later


_WAIT = object()


def _once(answered: Callable[[object], None]) -> Callable[[object], None]:
    """A faulty network may deliver twice."""
    told = False

    def tell(response: object) -> None:
        nonlocal told
        if not told:
            told = True
            answered(response)

    return tell
