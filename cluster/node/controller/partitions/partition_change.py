"""How a partition changes: PartitionChangeBuilder, with eligible leader replicas (KIP-966).

Elections. A replica may lead when it is acceptable (alive) and in the ISR, or in the ELR while the
ISR is empty. ONLINE keeps the present leader as long as it may lead, PREFERRED wants the first
replica back; both else take the first replica that may lead. With ELR enabled, and ISR and ELR both
empty, the last known leader may come back. UNCLEAN then takes any acceptable replica. The last two
may have lost records: the ISR becomes the leader alone, and it is RECOVERING.

Without a replica that can lead the leader is -1; without ELR the last member stays in the ISR then,
because it alone has everything that was acknowledged. With ELR it moves to the ELR and the ISR is
empty. The leader that is lost is noted as the last known one until there is a leader again, -1 when
there was none and replicas were taken away.

ELR: while the ISR is smaller than min.insync.replicas nothing can be acknowledged, so the replicas
that left it since still have all: ELR = (ELR + old ISR) - new ISR - those shut down uncleanly. As
soon as the ISR is large enough, the ELR is empty. It is kept in ascending order (Kafka's is that of
a hash set, which is the same for ids below 16).

Reassignments. One ends once the ISR, without the removed replicas, is not empty and holds every
adding replica; when more are removed than added, every replica that stays. The ISR would else
shrink to fewer members than the target has, down to one, by the removal alone.

One thing differs from Kafka: a replica that is taken away leaves the ELR as well. Kafka keeps it
there as long as the ISR is too small; added again, with an empty log, it might lead.

Every change counts the partition epoch, every change that names a leader the leader epoch; `replay`
does the counting.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable
from typing import TypeVar

from cluster.node.controller.metadata.state import UNASSIGNED_DIRECTORY, PartitionRegistration
from cluster.node.controller.records.kinds import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    PartitionChangeRecord,
)
from cluster.values import valueclass

T = TypeVar("T")

RECOVERED = 0
RECOVERING = 1
"""LeaderRecoveryState: the leader was elected uncleanly and has not recovered yet."""


class Election(enum.Enum):
    """What an election aims at."""

    PREFERRED = 0
    UNCLEAN = 1
    ONLINE = 2


@valueclass
class _Target:
    """What the partition is to become."""

    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@valueclass(kw_only=True)
class PartitionChangeBuilder:
    """One partition, and what is wanted of it."""

    topic_id: uuid.UUID
    index: int
    partition: PartitionRegistration
    is_acceptable: Callable[[int], bool]
    """Whether a broker may lead, were it in sync: alive as far as this change is concerned."""
    min_isr: int
    elr_enabled: bool
    election: Election = Election.ONLINE
    isr: tuple[int, ...] | None = None
    """The ISR wanted; None: as it is."""
    recovery_state: int | None = None
    unclean_shutdown: frozenset[int] = frozenset()
    replicas: tuple[int, ...] | None = None
    """The replicas wanted, those to be removed last; None: as they are. So `adding`, `removing`."""
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    directories: tuple[uuid.UUID, ...] | None = None
    """Where the present replicas are, as their brokers reported; None: as it is known."""
    directory_of: Callable[[int], uuid.UUID] = lambda _replica: UNASSIGNED_DIRECTORY
    """Where a broker puts a replica that it did not have."""

    def build(self) -> PartitionChangeRecord | None:
        """Return the record of the change, None when nothing changes."""
        old = self.partition
        target = self._target()
        isr, elr = target.isr, self._elr(target)
        elected, unclean = self._elect(target, elr)
        leader = NO_LEADER_CHANGE
        recovery = old.leader_recovery_state
        if elected != old.leader:
            leader = elected
            if elected in elr:
                isr, elr = (elected,), tuple(r for r in elr if r != elected)
            if unclean:
                isr, elr, recovery = (elected,), (), RECOVERING
        elif not set(old.replicas) <= set(target.replicas):
            leader = old.leader  # a new leader epoch, so that replicas that are gone are refused
        if not self.elr_enabled:
            isr, elr = isr or old.isr, ()
        if self.recovery_state not in (None, old.leader_recovery_state):
            recovery = self.recovery_state
        record = PartitionChangeRecord(
            topic_id=self.topic_id,
            partition_id=self.index,
            isr=isr if unclean and elected == leader else _change(old.isr, isr),
            leader=leader,
            replicas=_change(old.replicas, target.replicas),
            removing_replicas=_change(old.removing_replicas, target.removing),
            adding_replicas=_change(old.adding_replicas, target.adding),
            directories=self._directories(target.replicas),
            leader_recovery_state=recovery
            if recovery != old.leader_recovery_state
            else NO_RECOVERY_STATE_CHANGE,
            eligible_leader_replicas=_change(old.elr, elr),
            last_known_elr=self._last_known(leader),
        )
        nothing = PartitionChangeRecord(topic_id=self.topic_id, partition_id=self.index)
        return None if record == nothing else record

    def _target(self) -> _Target:
        """Return what is wanted, with the reassignment completed when the ISR allows it."""
        old = self.partition
        isr = old.isr if self.isr is None else self.isr
        replicas = old.replicas if self.replicas is None else self.replicas
        adding = old.adding_replicas if self.adding is None else self.adding
        removing = old.removing_replicas if self.removing is None else self.removing
        left_isr = tuple(r for r in isr if r not in removing)
        left = tuple(r for r in replicas if r not in removing)
        needed = left if len(adding) < len(removing) else adding
        if not (adding or removing) or not (left_isr and left) or not set(needed) <= set(left_isr):
            return _Target(isr, replicas, adding, removing)
        return _Target(left_isr, left)

    def _elect(self, target: _Target, elr: tuple[int, ...]) -> tuple[int, bool]:
        """Return the leader, -1 for none, and whether records may be lost with it."""

        def may_lead(replica: int) -> bool:
            in_sync = replica in target.isr or (not target.isr and replica in elr)
            return in_sync and self.is_acceptable(replica)

        current = self.partition.leader
        if self.election is Election.PREFERRED and may_lead(target.replicas[0]):
            return target.replicas[0], False
        for replica in (current, *target.replicas):
            if may_lead(replica):
                return replica, False
        for replica in self._unclean_candidates(target, elr):
            if self.is_acceptable(replica):
                return replica, True
        return NO_LEADER, False

    def _unclean_candidates(self, target: _Target, elr: tuple[int, ...]) -> tuple[int, ...]:
        """Return the replicas of an unclean election, if alive (KAFKA-19522), best first."""
        last_known = self.partition.last_known_elr
        if not self.elr_enabled or target.isr or elr or len(last_known) != 1:
            last_known = ()
        return (*last_known, *(target.replicas if self.election is Election.UNCLEAN else ()))

    def _elr(self, target: _Target) -> tuple[int, ...]:
        """Return who may lead without an ISR; without ELR who could before it was switched off."""
        if not self.elr_enabled:
            return self.partition.elr
        if len(target.isr) >= self.min_isr:
            return ()
        candidates = {*self.partition.elr, *self.partition.isr} & set(target.replicas)
        return tuple(sorted(candidates - set(target.isr) - self.unclean_shutdown))

    def _last_known(self, leader: int) -> tuple[int, ...] | None:
        """Return the change of the last known leader: noted with the loss, forgotten with a new."""
        old = self.partition
        if not self.elr_enabled or leader == NO_LEADER_CHANGE:
            return None
        if leader == NO_LEADER:
            return None if old.last_known_elr else (old.leader,)
        return () if old.last_known_elr else None

    def _directories(self, replicas: tuple[int, ...]) -> tuple[uuid.UUID, ...] | None:
        """Return the directories in the order of the replicas, None when that is how they are."""
        old = self.partition
        known = old.directories if self.directories is None else self.directories
        if len(known) != len(old.replicas):
            return None
        by_replica = dict(zip(old.replicas, known, strict=True))
        found = tuple(by_replica.get(replica) or self.directory_of(replica) for replica in replicas)
        return _change(old.directories, found)


def _change(old: tuple[T, ...], new: tuple[T, ...]) -> tuple[T, ...] | None:
    return None if old == new else new
