"""Shaped fragments of random schedules: faults of nodes in an order that losing data takes.

A write that a majority acknowledged is lost only where several faults meet: a member misses writes
and then leads, or two members miss different writes. Faults that are drawn one by one, with time to
recover after each, hardly ever come in such an order. Each shape here is one, known from a
published bug; which nodes, which kinds of fault and which times are drawn, and the kinds are the
plan's own, so that a shape asks nothing of a system that the plan does not ask.

Nodes that are away at the same time are a minority, except at the end of `last_holder`, where the
quorum must wait for those who hold what it acknowledged. The swarm's fragments
(`harness.sim.swarm.fragments`) wait for trace events, which nodes of other systems do not write;
these need nothing but the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from cluster.values import valueclass

AWAY = ("kill", "stop", "pause", "partition", "power-loss")
"""Kinds of fault that take a node away from the others."""
NODES_MIN = 3
"""With fewer every node that is away stops the quorum."""
_MEANWHILE_S = 0.2
"""How long before some are back the others go: as long as it takes to take these away."""
CRASHES = ("kill", "stop", "power-loss")
"""Those after which it starts anew and recovers."""


@valueclass
class Away:
    """One fault of a fragment, from `begin_s` to `end_s` after the fragment began."""

    begin_s: float
    end_s: float
    kind: str
    targets: str

    def is_turn_of(self, kind: str) -> bool:
        """Whether it is what a schedule's first turn of the kind is for: it hits the leader."""
        return (kind, "leader") == (self.kind, self.targets)

    @property
    def parameters(self) -> dict[str, Any]:
        """The fault's parameters."""
        shape = {"shape": "isolate"} if self.kind == "partition" else {}
        return {**shape, "targets": self.targets}


@valueclass
class Draw:
    """The draws of a fragment."""

    random: Random
    kinds: Sequence[str]
    """Of `AWAY`, at least one."""
    nodes: tuple[str, ...]
    quiet_s: tuple[float, float]
    fault_s: tuple[float, float]

    def long_s(self) -> float:
        """Draw a time in which the others elect a leader and acknowledge writes."""
        return self.random.uniform(*self.fault_s)

    def rest_s(self) -> float:
        """Draw a time in which a node that came back catches up."""
        return self.random.uniform(*self.quiet_s)

    def brief_s(self) -> float:
        """Draw a time in which it has hardly begun to."""
        return self.random.uniform(0.0, 0.75) * self.quiet_s[0]

    def others(self, count: int) -> list[str]:
        """Draw nodes, as targets."""
        return [f"node:{node}" for node in self.random.sample(self.nodes, count)]

    def away(self, begin_s: float, end_s: float, targets: str, *, crash: bool = False) -> Away:
        """Draw by which fault the targets are away."""
        crashes = [kind for kind in self.kinds if kind in CRASHES] if crash else []
        return Away(begin_s, end_s, self.random.choice(crashes or self.kinds), targets)


def stale_stand(draw: Draw) -> list[Away]:
    """Followers, a minority, miss writes, and then stand for election.

    Those who acknowledged the writes crash before these are back, their leader first, and start
    when these have timed out, their leader last: whoever grants one of them a vote has more than it
    (Raft 5.4.1).
    """
    stale = ",".join(["follower"] * ((len(draw.nodes) - 1) // 2))
    back_s = draw.long_s()
    start_s = back_s + draw.rest_s()
    crash = "kill" if "kill" in draw.kinds else draw.random.choice(draw.kinds)
    return [
        draw.away(0.0, back_s, stale),
        Away(back_s - 2 * _MEANWHILE_S, start_s + draw.rest_s(), crash, "leader"),
        Away(back_s - _MEANWHILE_S, start_s, crash, "untouched"),
    ]


def left_behind_leads(draw: Draw) -> list[Away]:
    """A member misses writes; it is hardly back when the leader goes, and may follow it."""
    back_s = draw.long_s()
    gone_s = back_s + draw.brief_s()
    return [
        draw.away(0.0, back_s, *draw.others(1)),
        draw.away(gone_s, gone_s + draw.long_s(), "leader"),
    ]


def two_behind_in_turn(draw: Draw) -> list[Away]:
    """Two members miss different writes; one may lead when the other comes back.

    ZOOKEEPER-4925: a leader that caught up by a DIFF has a hole in what it passes on. Of three or
    four nodes only one can be away at a time, so the first is back before the second goes.
    """
    first, second = draw.others(2)
    two = len(draw.nodes) >= 5
    back_s = 0.0 if two else draw.long_s()
    second_s = back_s + draw.brief_s()
    caught_s = second_s + draw.long_s()
    gone_s = caught_s + draw.rest_s()
    end_s = gone_s + draw.long_s()
    if two:
        back_s = draw.random.uniform(gone_s + draw.brief_s(), end_s)
    return [
        draw.away(0.0, back_s, first),
        draw.away(second_s, caught_s, second),
        draw.away(gone_s, end_s, "leader"),
    ]


def hit_in_recovery(draw: Draw) -> list[Away]:
    """A member that starts anew is hit again, or its leader is, while it recovers."""
    (member,) = draw.others(1)
    back_s = draw.long_s()
    again_s = back_s + draw.brief_s()
    target = draw.random.choice((member, member, "leader"))
    return [
        draw.away(0.0, back_s, member, crash=True),
        draw.away(again_s, again_s + draw.long_s(), target, crash=True),
    ]


def last_holder(draw: Draw) -> list[Away]:
    """What a member missed the others acknowledge; they then crash and come back one by one."""
    *missing, holder = draw.others((len(draw.nodes) - 1) // 2 + 1)
    back_s = draw.long_s()
    gone_s = back_s - draw.brief_s() / 2
    crash_s = back_s + draw.brief_s() / 2
    holder_s = crash_s + draw.brief_s()
    return [
        draw.away(0.0, back_s, ",".join(missing)),
        draw.away(gone_s, holder_s + draw.long_s(), "leader"),
        draw.away(crash_s, holder_s, holder, crash=True),
    ]


SHAPES: tuple[Callable[[Draw], list[Away]], ...] = (
    stale_stand,
    left_behind_leads,
    two_behind_in_turn,
    hit_in_recovery,
    last_holder,
)


def fragment(draw: Draw) -> list[Away]:
    """Draw a fragment, its faults in the order in which they begin."""
    return sorted(draw.random.choice(SHAPES)(draw), key=lambda away: away.begin_s)
