"""Feeds each event to all invariants, and keeps the first violations.

What follows from a broken state is not worth reporting, so only the first few are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from checkers.invariants import commits, elections, logs, snapshots, voters
from checkers.invariants.answers import ANSWERS
from checkers.invariants.brokers import BROKER_INVARIANTS
from checkers.invariants.descriptions import DESCRIPTIONS
from checkers.invariants.fold import Broken, Hook, Invariant, Order, hooks
from checkers.invariants.leading import LEADING
from checkers.invariants.partitions import PARTITIONS
from checkers.invariants.producers import PRODUCERS
from checkers.invariants.quorum import Quorum
from checkers.invariants.replicas import REPLICATION
from checkers.invariants.sessions import SESSIONS
from checkers.invariants.sight import Fields, Sight
from checkers.invariants.standing import STANDING
from checkers.invariants.upkeep import UPKEEP

INVARIANTS: tuple[type[Invariant], ...] = (
    elections.MonotonicEpoch,
    elections.ElectionSafety,
    elections.OneVote,
    elections.StableLeadership,
    elections.ElectedByMajority,
    elections.DurableVote,
    elections.NoContradiction,
    voters.OneVoterChange,
    voters.ChangeAfterCommit,
    voters.CommittedVoters,
    voters.LeadsAsVoter,
    logs.Recovery,
    logs.LogMatching,
    logs.CommittedPrefix,
    logs.CommittedTruncated,
    commits.MajorityDurable,
    commits.MajorityCounted,
    commits.MonotonicHighWatermark,
    commits.LeaderCompleteness,
    commits.DurableFetch,
    snapshots.SnapshotCommitted,
    snapshots.SnapshotDurable,
    snapshots.SnapshotAgreement,
    commits.OwnCommit,
    commits.ClaimAfterReplay,
    commits.AckCommitted,
    commits.ReadConfirmed,
)


LIVE: tuple[type[Invariant], ...] = (
    *INVARIANTS,
    elections.PreElected,
    voters.VotersKnown,
    voters.NewVoterHoldsLog,
    voters.Described,
    voters.changes_taken,
    snapshots.snapshot_made,
    *LEADING,
    *STANDING,
    *BROKER_INVARIANTS,
    *SESSIONS,
    *REPLICATION,
    *PARTITIONS,
    *UPKEEP,
    *ANSWERS,
    *DESCRIPTIONS,
    *PRODUCERS,
)
"""Those by which a simulated world is judged as it runs."""
VIOLATIONS_MAX = 20
_LEADER_HW = "leader-hw"
"""Name of `hw` events of leaders: most come from followers, and few hooks read those."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold."""

    property: str
    """Name of the invariant."""
    explanation: str
    nodes: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    """As of `Broken`: empty where all was seen."""


class Watcher:
    """Follows one run from its beginning."""

    def __init__(
        self,
        sight: Sight | None = None,
        on_violation: Callable[[Violation], None] | None = None,
        among: Collection[type[Invariant]] = INVARIANTS,
    ) -> None:
        """`on_violation` is called while an event is judged: it must change nothing."""
        self.violations: list[Violation] = []
        self.quorum = Quorum(sight)
        self._sight = sight
        self._on_violation = on_violation
        judging: dict[str, list[tuple[str, Hook]]] = {event: [] for event in self.quorum.takes}
        self._waiting: dict[str, list[Hook]] = {}
        """By event: the hooks of invariants that need its causes to come first."""
        for kind in among:
            invariant = kind(self.quorum)
            for event, hook in hooks(invariant).items():
                judging.setdefault(event, []).append((invariant.name, hook))
                if invariant.order is Order.CAUSE:
                    self._waiting.setdefault(event, []).append(hook)
        judging[_LEADER_HW] = judging["hw"] + judging.get(_LEADER_HW, [])
        self.quorum.takes[_LEADER_HW] = self.quorum.takes["hw"]
        self._events = {
            event: (tuple(found), self.quorum.takes.get(event)) for event, found in judging.items()
        }

    def take(self, node: str, event: str, fields: Fields) -> None:
        """Judge one event, then take it up."""
        if event == "hw":
            event = _event_name(event, fields)
        known = self._events.get(event)
        if known is None:
            return
        judging, take_up = known
        if self._sight is not None:
            if node in self.quorum.stale and self._sight.is_open(node):
                self._open(node, self._sight)
            if event == "append":
                batches = self._sight.batches(node, fields["base_offset"])
                fields = {**fields, "batches": batches}
            elif event == "snapshot":
                held = self._sight.snapshot(node, fields["offset"], fields["epoch"])
                fields = {**fields, "held": held}
        for name, hook in judging:
            broken = hook(node, fields)
            if broken is not None:
                self.report(name, broken, node)
        if take_up is not None:
            take_up(node, fields)

    def lacks(self, node: str, event: str, fields: Fields) -> Broken | None:
        """Return what the event would break if it were taken now, by hooks that need its causes."""
        for hook in self._waiting.get(_event_name(event, fields), ()):
            broken = hook(node, fields)
            if broken is not None:
                return broken
        return None

    def note_end(self, node: str, durable_end_offset: int) -> None:
        """Take up the end of a process; below `durable_end_offset` its log was durable."""
        if node not in self.quorum.stale:
            self.take(node, "ended", {"durable_end_offset": durable_end_offset})

    def report(self, name: str, broken: Broken, node: str) -> None:
        """Keep a violation, and report it."""
        violation = Violation(name, broken.explanation, broken.nodes or (node,), broken.unseen)
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(violation)
        if self._on_violation is not None:
            self._on_violation(violation)

    def _open(self, node: str, sight: Sight) -> None:
        """Judge and take up the log of a new process, as soon as it can be seen."""
        self.quorum.stale.discard(node)
        start_offset = sight.start_offset(node)
        opened = {
            "start_offset": start_offset,
            "batches": sight.batches(node, start_offset),
            "durable_end_offset": sight.durable_end(node),
        }
        self.take(node, "opened", opened)


def _event_name(event: str, fields: Fields) -> str:
    return _LEADER_HW if event == "hw" and fields["role"] == "leader" else event
