"""What metadata become by right requests, said of plain maps: as KIP-455, 858, 966 and others do.

`Plain` has the maps of a controller's state as dictionaries, and changes them. It shares nothing
with the node but the classes of registrations. A `Change` is a request, and what is right of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final
from uuid import UUID

from cluster.node.assembly import Node
from cluster.node.controller.brokers.broker_lifecycle import BrokerHeartbeatManager
from cluster.node.controller.metadata.state import (
    BrokerRegistration,
    ConfigResource,
    MetadataState,
    PartitionKey,
    PartitionRegistration,
)

TOPIC, BROKER = 2, 4
"""Types of what has settings."""
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
ELR: Final = "eligible.leader.replicas.version"
ALL_BROKERS: Final = ConfigResource(BROKER, "")
UNASSIGNED, LOST, MIGRATING = (UUID(int=number) for number in range(3))
"""Directories that are none (DirectoryId)."""
NOBODY: Final = -1
NEW, END = 9_000, 1_000_000
"""Numbers of brokers and topics that no world has."""
NOWHERE: Final = UUID(int=99)
Maps = dict[str, dict[Any, Any]]
Pairs = Iterable[tuple[object, object]]
"""What there is, and what is right."""
May = Callable[[int], bool]


def rows_as(kind: Any, rows: Any) -> tuple[Any, ...]:
    """Return rows as another kind with the same names of fields."""
    names = [field.name for field in fields(kind)]
    return tuple(kind(**{name: getattr(row, name) for name in names}) for row in rows)


def maps_of(state: MetadataState) -> Maps:
    """Return all that a state holds."""
    found = {field.name: getattr(state, field.name) for field in fields(MetadataState)}
    maps = {name: of.entries() for name, of in found.items()}
    return {**maps, "config_names": {k: {*names} for k, names in maps["config_names"].items()}}


@dataclass(slots=True)
class Plain:
    """See the module."""

    maps: Maps
    end: int = -1
    """Offset of the last record."""
    marks: dict[Any, set[PartitionKey]] = field(default_factory=dict)
    """Which partitions there are of each broker, and of each kind, as they were indexed last."""

    @property
    def brokers(self) -> dict[int, BrokerRegistration]:
        """By id."""
        return self.maps["brokers"]

    @property
    def partitions(self) -> dict[PartitionKey, PartitionRegistration]:
        """By topic and index."""
        return self.maps["partitions"]

    @property
    def has_elr(self) -> bool:
        """Whether there are eligible leader replicas."""
        return bool(self.maps["features"].get(ELR))

    def is_active(self, number: int) -> bool:
        """Whether a broker may lead."""
        broker = self.brokers.get(number)
        return broker is not None and not (broker.fenced or broker.in_controlled_shutdown)

    def is_online(self, number: int, directory: UUID) -> bool:
        """Whether nothing is known against a directory of a broker."""
        broker = self.brokers.get(number)
        known = {UNASSIGNED, MIGRATING, *(() if broker is None else broker.log_dirs)}
        return directory in known or (directory != LOST and (broker is None or not broker.log_dirs))

    def directory(self, of: PartitionRegistration, number: int) -> UUID:
        """Where a replica is."""
        at = dict(zip(of.replicas, of.directories, strict=False))
        return at[number] if len(of.directories) == len(of.replicas) else MIGRATING

    def new_directory(self, number: int) -> UUID:
        """Where a broker puts a new replica."""
        broker = self.brokers.get(number)
        has = () if broker is None else broker.log_dirs
        return has[0] if len(has) == 1 else UNASSIGNED if has or broker is None else MIGRATING

    def setting(self, topic_id: UUID, name: str, default: str) -> str:
        """What is in force of a topic, of what the metadata have."""
        own = ConfigResource(TOPIC, self.maps["topics"][topic_id].name), name
        configs = self.maps["configs"]
        return str(configs.get(own, configs.get((ALL_BROKERS, name), default)))

    def change(
        self,
        key: PartitionKey,
        may: May | None = None,
        *,
        election: str = "",
        unclean: Collection[int] = (),
        recovery: int | None = None,
        **wanted: tuple[Any, ...],
    ) -> PartitionRegistration:
        """Return a partition with what is `wanted` of it, and what follows.

        `may`: whether a broker may lead, were its directory online; None: an active one.
        `election`: `preferred` or `unclean`, if not as its topic has it. `unclean`: replicas that
        may have lost what they had.
        """
        old = self.partitions[key]
        found = replace(old, directories=wanted.pop("directories", old.directories))

        def can(number: int) -> bool:
            lives = self.is_active(number) if may is None else may(number)
            return (
                lives
                and number in old.replicas
                and self.is_online(number, self.directory(found, number))
            )

        new = self._target(old, wanted)
        is_new = not {*old.replicas} <= {*new.replicas}
        eligible = self._eligible(key, old, new, unclean)
        in_sync = {*new.isr} or {*eligible}
        first = new.replicas[:1] if election == "preferred" else ()
        among = [r for r in (*first, old.leader, *new.replicas) if r in in_sync and can(r)]
        lasts = old.last_known_elr if len(old.last_known_elr) == 1 else ()
        lasts = lasts if self.has_elr and not in_sync else ()
        if (election or self.setting(key[0], UNCLEAN, "false")) in ("unclean", "true"):
            lasts = (*lasts, *new.replicas)
        lost = () if among else [r for r in lasts if can(r)]
        leader = (*among, *lost, NOBODY)[0]
        isr, recovers = new.isr, old.leader_recovery_state
        if leader not in (old.leader, NOBODY, *isr):
            isr, recovers = (leader,), recovers if among else 1
            eligible = tuple(r for r in eligible if r != leader) if among else ()
        if not self.has_elr:
            isr, eligible = isr or old.isr, ()
        new = replace(
            new,
            isr=isr,
            elr=eligible,
            leader=leader,
            leader_epoch=old.leader_epoch + (leader != old.leader or is_new),
            leader_recovery_state=recovers if recovery is None else recovery,
            last_known_elr=self._last_known(old, leader, is_new=is_new),
            directories=self._places(old, found, new),
        )
        return old if new == old else replace(new, partition_epoch=old.partition_epoch + 1)

    def _last_known(
        self, old: PartitionRegistration, leader: int, *, is_new: bool
    ) -> tuple[int, ...]:
        if not self.has_elr or (leader == old.leader and not is_new):
            return old.last_known_elr
        return () if leader != NOBODY else old.last_known_elr or (old.leader,)

    def _places(
        self, old: PartitionRegistration, found: PartitionRegistration, new: PartitionRegistration
    ) -> tuple[UUID, ...]:
        if len(found.directories) != len(old.replicas):
            return old.directories
        at = dict(zip(old.replicas, found.directories, strict=True))
        return tuple(at.get(r) or self.new_directory(r) for r in new.replicas)

    def _target(self, old: PartitionRegistration, wanted: dict[str, Any]) -> PartitionRegistration:
        """Return what is wanted, and the end of a reassignment that it ends."""
        new = replace(old, **wanted)
        isr = new.isr
        adding, removing = new.adding_replicas, new.removing_replicas
        left = tuple(r for r in new.replicas if r not in removing)
        left_isr = tuple(r for r in isr if r not in removing)
        needed = left if len(adding) < len(removing) else adding
        if not (adding or removing) or not left or not left_isr or {*needed} - {*left_isr}:
            return new
        return replace(new, isr=left_isr, replicas=left, adding_replicas=(), removing_replicas=())

    def _eligible(
        self,
        key: PartitionKey,
        old: PartitionRegistration,
        new: PartitionRegistration,
        unclean: Collection[int],
    ) -> tuple[int, ...]:
        if not self.has_elr:
            return old.elr
        least = int(self.setting(key[0], MIN_ISR, "1"))
        if len(new.isr) >= min(least, len(self.partitions[key[0], 0].replicas)):
            return ()
        had = {*old.elr, *old.isr} & {*new.replicas}
        return tuple(sorted(had - {*new.isr} - {*unclean}))

    def lose(
        self,
        number: int,
        *,
        directories: Collection[UUID] | None = None,
        is_unclean: bool = False,
        and_eligible: bool = False,
    ) -> None:
        """Take a broker out of every ISR; of what it has in some directories, if these are given.

        All partitions are looked at as they were before.
        """
        after = {}
        for key, old in self.partitions.items():
            member = number in old.isr or (and_eligible and number in old.elr)
            if not member or (
                directories is not None and self.directory(old, number) not in directories
            ):
                continue
            after[key] = self.change(
                key,
                lambda other: other != number and self.is_active(other),
                isr=tuple(each for each in old.isr if each != number),
                unclean=(number,) if is_unclean else (),
            )
        self.partitions.update(after)

    def clear_eligible(self, topic_ids: Collection[UUID]) -> None:
        """Forget who may lead, of some topics."""
        for key, old in self.partitions.items():
            if key[0] in topic_ids and (old.elr or old.last_known_elr):
                self.partitions[key] = replace(
                    old, elr=(), last_known_elr=(), partition_epoch=old.partition_epoch + 1
                )

    def index(self) -> None:
        """Take up in the indexes what the other maps have."""
        topics = {topic.name: topic.id for topic in self.maps["topics"].values()}
        names: dict[ConfigResource, set[str]] = {}
        for of, name in self.maps["configs"]:
            names.setdefault(of, set()).add(name)
        self.maps |= {
            "topic_names": topics,
            "similar_names": {name.replace(".", "_"): name for name in topics},
            "config_names": names,
        }
        self.marks = {}
        for key, has in self.partitions.items():
            marks: list[Any] = [*has.replicas, *has.isr, *has.elr]
            marks += ["leaderless"] * (has.leader == NOBODY)
            marks += ["imbalanced"] * (has.leader != has.replicas[0])
            marks += ["reassigning"] * bool(has.adding_replicas or has.removing_replicas)
            for mark in marks:
                self.marks.setdefault(mark, set()).add(key)


def nothing(*_: object) -> Pairs:
    """Change nothing, and see nothing."""
    return ()


@dataclass(slots=True)
class Change:
    """A request, and what is right of it."""

    what: str
    request: Any = None
    makes: Callable[[Plain, Any, Maps], Pairs] = nothing
    """Changes the maps, given the answer and what the node makes of them, and compares of these
    what is the node's choice."""
    error: str = "none"
    sees: Callable[[MetadataState, Node], Pairs] = nothing
    """Looks at the state that it leaves."""
    decide: Callable[[MetadataState, BrokerHeartbeatManager], Any] | None = None
    """What a node makes of it, given sessions of its own; None: as its type says."""
