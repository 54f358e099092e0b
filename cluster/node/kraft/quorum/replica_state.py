"""Progress of replicas as a leader sees it, and the bounded number of observers that it remembers.

Anybody who reaches the port can fetch under as many ids and directories as there are. So a leader
remembers `OBSERVERS_MAX` observers, and forgets first one that fetched only once, then the one that
has not fetched for longest. A broker fetches all the time, so it is among the last to go; and one
that is forgotten is known again with its next Fetch. Each Fetch costs O(1).

Source: LeaderState.java, whose observers are bounded by their session alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from cluster.node.kraft.messages import ReplicaKey
from cluster.node.kraft.quorum.states import NEVER_MS

OBSERVER_SESSION_TIMEOUT_MS = 300_000
"""An observer that has not fetched for this long is forgotten (LeaderState.java)."""

OBSERVERS_MAX = 2_000
"""Twice as many as may be connected to a listener by default (`max.connections`)."""

NEVER_FETCHED_MS = -NEVER_MS


@dataclass(slots=True)
class ReplicaState:
    """Progress of one replica as its fetches show it. Times are the leader's monotonic ms."""

    key: ReplicaKey
    end_offset: int = -1
    """What it holds durably; -1 until it was heard of in this epoch."""
    last_fetch_ms: float = NEVER_FETCHED_MS
    last_fetch_leader_end_offset: int = -1
    last_caught_up_ms: float = NEVER_FETCHED_MS
    last_fetch_wall_ms: int = -1
    last_caught_up_wall_ms: int = -1
    begin_sent_ms: float = NEVER_FETCHED_MS
    asked_read: int = 0
    """The latest read that the last BeginQuorumEpoch to this voter may confirm."""
    confirmed_read: int = 0
    """The latest read with a leadership check that this voter answered; see `RaftClient`."""


class Observers:
    """What a leader knows of replicas that are no voters."""

    __slots__ = ("_once", "_steady")

    def __init__(self) -> None:
        self._once: OrderedDict[ReplicaKey, ReplicaState] = OrderedDict()
        """Those that fetched once, in that order."""
        self._steady: OrderedDict[ReplicaKey, ReplicaState] = OrderedDict()
        """Those that fetched again, the idlest first."""

    def __len__(self) -> int:
        return len(self._once) + len(self._steady)

    def __iter__(self) -> Iterator[ReplicaState]:
        yield from self._once.values()
        yield from self._steady.values()

    def get(self, key: ReplicaKey) -> ReplicaState | None:
        """What is known of an observer."""
        return self._steady.get(key) or self._once.get(key)

    def observe_fetch(self, key: ReplicaKey, now_ms: float) -> ReplicaState:
        """Return the state of an observer that fetches now, to be brought up to date."""
        state = self._steady.get(key)
        if state is not None:
            self._steady.move_to_end(key)
            return state
        state = self._once.pop(key, None)
        if state is not None:
            self._steady[key] = state
            return state
        self._make_room(now_ms)
        state = self._once[key] = ReplicaState(key)
        return state

    def add(self, state: ReplicaState) -> None:
        """Go on with what was known of a voter, which is an observer now."""
        self._steady[state.key] = state

    def pop(self, key: ReplicaKey) -> ReplicaState | None:
        """Take out what is known of an observer, which is a voter now."""
        return self._steady.pop(key, None) or self._once.pop(key, None)

    def live(self, now_ms: float) -> tuple[ReplicaState, ...]:
        """Those with a session that is not over, in order of their keys. Changes nothing."""
        live = (state for state in self if not _is_over(state, now_ms))
        return tuple(sorted(live, key=lambda s: (s.key.id, s.key.directory_id.int)))

    def _make_room(self, now_ms: float) -> None:
        for states in (self._once, self._steady):
            while states and _is_over(next(iter(states.values())), now_ms):
                states.popitem(last=False)
        if len(self) >= OBSERVERS_MAX:
            (self._once or self._steady).popitem(last=False)


def _is_over(state: ReplicaState, now_ms: float) -> bool:
    return now_ms - state.last_fetch_ms >= OBSERVER_SESSION_TIMEOUT_MS
