"""Shaped fragments of schedules, with random parameters.

Losing a committed record takes three or four faults in the right order, which uniformly random
faults seldom produce. Each fragment here is such an order, known from a real or a published bug;
the times, the targets and the omitted steps are drawn. The swarm mixes them with plain random
faults, which varies the known order into new ones.

Times are in *units*: one unit is about the time that a quorum needs to detect the loss of its
leader and to elect the next, with the plan's time-outs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from cluster.values import valueclass
from harness.plan.strands import Condition, Step, Strand


@valueclass
class Draw:
    """The draws of a fragment."""

    random: Random
    unit_ms: float
    nodes: int

    def span(self, low: float, high: float) -> float:
        """Draw a time between so many units, in ms."""
        return round(self.unit_ms * self.random.uniform(low, high), 1)

    def chance(self, probability: float) -> bool:
        """Draw whether an event of this probability occurs."""
        return self.random.random() < probability

    def keep(self) -> dict[str, Any]:
        """Draw what a kill keeps, as its parameters."""
        return kill_parameters(self.random.choice(("any", "nothing", "nothing", "everything")))


def kill_parameters(keep: str) -> dict[str, Any]:
    """Return the parameters of a kill; `any` is the world's default of a power loss."""
    return {} if keep == "any" else {"keep": keep}


Fragment = Callable[[Draw], list[Step]]

_ESTABLISHED = Condition(established=True)


def _cast(draw: Draw, *names: str) -> Step:
    """Cast the leader as the first name and followers as the others."""
    followers = dict.fromkeys(names[1:], "follower")
    return Step(
        "cast",
        until=_ESTABLISHED,
        within_ms=6 * draw.unit_ms,
        options={"names": {names[0]: "leader", **followers}},
    )


def _do(kind: str, targets: str = "", after_ms: float = 0.0, **options: Any) -> Step:
    for_ms = options.pop("for_ms", None)
    until = options.pop("until", None)
    within_ms = options.pop("within_ms", 10_000.0)
    strict = options.pop("strict", False)
    return Step(
        kind,
        after_ms,
        targets,
        for_ms,
        until=until,
        within_ms=within_ms,
        strict=strict,
        options=options,
    )


def _cut_off(targets: str, after_ms: float = 0.0, **options: Any) -> Step:
    """Cut nodes off from all others."""
    return _do("partition", targets, after_ms, shape="isolate", **options)


def _lose(fault: str, targets: str, after_ms: float) -> Step:
    """Take nodes away from the others, by a partition or a fault of the process."""
    cut_off = fault == "partition"
    return _cut_off(targets, after_ms) if cut_off else _do(fault, targets, after_ms)


def _down(targets: str, for_ms: float, **options: Any) -> Step:
    """Kill nodes, or stop them if `graceful`, and start them again."""
    if options.pop("graceful", False):
        return _do("stop", targets, for_ms=for_ms)
    return _do("kill", targets, for_ms=for_ms, **options)


def _heal(fault: str, targets: str, after_ms: float = 0.0) -> Step:
    return _do("heal", targets, after_ms, fault=fault)


def _writes(draw: Draw, targets: str, count: int) -> list[Step]:
    """Draw when; what is written follows from the plan's workload."""
    return [_do("op", targets, 0.0 if number else draw.span(0.02, 0.2)) for number in range(count)]


def _hurry(draw: Draw, targets: str) -> Step:
    """Let a node's time-outs expire before those of the others."""
    return _do(
        "timer-rate", targets, for_ms=draw.span(1, 2), rate=round(draw.random.uniform(3, 12), 1)
    )


def stale_candidate(draw: Draw) -> list[Step]:
    """A voter misses writes; the leader is lost and that voter is the first candidate (M01)."""
    steps = [
        _cast(draw, "A", "B", "C"),
        _cut_off("@C"),
        *_writes(draw, "@A", draw.random.randint(1, 3)),
        _lose("partition" if draw.chance(0.6) else "kill", "@A", draw.span(0.1, 1.0)),
        _heal("partition", "@C", draw.span(0.0, 0.3)),
        _hurry(draw, "@C"),
        *_writes(draw, "@C", draw.random.randint(0, 2)),
    ]
    return [*steps, _do("heal", after_ms=draw.span(1.0, 3.0))]


def long_old_log(draw: Draw) -> list[Step]:
    """A leader that is cut off appends much; the others commit less, then lose their leader (M02).

    If they keep their leader, the first one returns with a diverging tail (M21, M25).
    """
    steps = [
        _cast(draw, "A", "B", "C"),
        _cut_off("@A"),
        *_writes(draw, "@A", draw.random.randint(2, 6)),
        _do(
            "cast",
            after_ms=draw.span(0.1, 0.5),
            until=Condition(established=True, epoch="later"),
            within_ms=4 * draw.unit_ms,
            names={"D": "leader"},
        ),
        *_writes(draw, "@D", draw.random.randint(0, 3)),
    ]
    if draw.chance(0.6):
        lose = draw.random.choice(("kill", "partition", "pause"))
        steps.append(_lose(lose, "@D", draw.span(0.05, 0.5)))
        steps += [_heal("partition", "@A", draw.span(0, 0.2)), _hurry(draw, "@A")]
    else:
        steps.append(_heal("partition", "@A", draw.span(0.0, 0.5)))
    return [*steps, _do("heal", after_ms=draw.span(1.0, 3.0))]


def contested_epoch(draw: Draw) -> list[Step]:
    """Two candidates in one epoch; the voter, or the winner, dies and then gets the loser's Vote.

    The winner gets it when it starts, or when it leaves Resigned. (M03, M04, M06, M09.)
    """
    start: list[Step] = [
        _cast(draw, "C", "A", "B"),
        _do("hold", links="@A-@B", types="VoteRequest,VoteResponse"),
        _do("hold", links="@A>@C,@B>@C" if draw.chance(0.2) else "@A-@B", types="VoteRequest"),
        _down("@C", draw.span(0.0, 0.1), **draw.keep(), graceful=draw.chance(0.2)),
    ]
    end = [_do("release", after_ms=draw.span(0.02, 0.4)), *_end(draw)]
    end_of = draw.random.choice(("voter", "winner", "resigned"))
    if end_of == "voter":
        return [*start, _voter_forgets(draw), *end]
    keep = kill_parameters("nothing") if draw.chance(0.7) else draw.keep()
    if end_of == "winner":
        won = Condition(event="state", where={"state": "Leader"})
        down_ms = round(draw.random.uniform(0.0, 0.1) * draw.unit_ms, 1)
        again = _down("leader", down_ms, until=won, within_ms=4 * draw.unit_ms, **keep)
        return [*start, again, *end]
    left = Condition(at="@W", event="state", where={"state": "Unattached"})
    return [
        *start,
        _do(
            "cast",
            until=Condition(event="state", where={"state": "Leader"}),
            within_ms=4 * draw.unit_ms,
            names={"W": "leader"},
        ),
        _do("kill", "@W", **keep),
        _do("hold", links="all>@W"),
        _heal("kill,stop", "@W"),
        _do("wait", until=left, within_ms=3 * draw.unit_ms),
        _do("release", links="@A>@W,@B>@W"),
        _do("release", after_ms=draw.span(0.05, 0.3)),
        *_end(draw),
    ]


def _voter_forgets(draw: Draw) -> Step:
    """Kill the voter at its vote, or damage its quorum-state file."""
    granted = Condition(at="@C", event="vote", where={"granted": True, "pre_vote": False})
    within_ms = 4 * draw.unit_ms
    if draw.chance(0.15):
        return _do("bit-flip", "@C", until=granted, within_ms=within_ms, file="quorum-state")
    down_ms = round(draw.random.uniform(0.0, 0.1) * draw.unit_ms, 1)
    return _down("@C", down_ms, until=granted, within_ms=within_ms, **draw.keep())


def resigned_leader(draw: Draw) -> list[Step]:
    """A leader resigns, cut off or stopped, and late votes of its epoch reach it (M09)."""
    steps = [
        _cast(draw, "A", "B", "C"),
        _do("hold", links="@B>@A,@C>@A", types="VoteRequest,FetchRequest"),
    ]
    if draw.chance(0.5):
        steps.append(_cut_off("@A", for_ms=draw.span(1.0, 3.0)))
    else:
        steps.append(_down("@A", draw.span(0.0, 0.3), graceful=draw.chance(0.5)))
    return [*steps, _do("release", after_ms=draw.span(0.5, 2.0)), *_end(draw)]


def figure_8(draw: Draw) -> list[Step]:
    """A record of an old epoch reaches a majority in a later one, and its leader dies (M17).

    Figure 8 of the Raft paper: counting replicas commits no record of an earlier epoch.
    """
    won_again = Condition(at="@A", state="Leader")
    caught = Condition(at="@B", event="append", where={"role": "follower"})
    return [
        _cast(draw, "A", "B", "C"),
        _cut_off("@A"),
        *_writes(draw, "@A", draw.random.randint(1, 2)),
        _do("kill", "@A", draw.span(0.05, 0.3), keep="everything"),
        _heal("partition", "@A"),
        _hurry(draw, "@C"),
        _do(
            "partition",
            shape="links",
            links="@C>@B",
            until=Condition(at="@C", event="epoch-start"),
            within_ms=4 * draw.unit_ms,
        ),
        _do("kill", "@C", draw.span(0.02, 0.3), keep="everything"),
        _heal("partition", "@C"),
        _heal("kill,stop", "@A"),
        _hurry(draw, "@A"),
        _do("wait", until=won_again, within_ms=5 * draw.unit_ms),
        _do("wait", until=caught, within_ms=draw.unit_ms),
        _do("kill", "@A", round(draw.random.uniform(0.0, 30.0), 1), **draw.keep()),
        _heal("kill,stop", "@C"),
        _hurry(draw, "@C"),
        *_end(draw),
    ]


def late_responses(draw: Draw) -> list[Step]:
    """Fetch responses are held over time-outs and elections, then delivered (M22, M23)."""
    steps = [
        _cast(draw, "A", "B", "C"),
        _do("hold", links="@A>@B", types="FetchResponse"),
        *_writes(draw, "@A", draw.random.randint(1, 3)),
    ]
    if draw.chance(0.6):
        steps.append(_lose(draw.random.choice(("kill", "partition")), "@A", draw.span(0.1, 0.6)))
        steps += _writes(draw, "", draw.random.randint(0, 2))
    steps.append(_do("release", after_ms=draw.span(0.1, 2.0)))
    return [*steps, *_end(draw)]


def lost_power(draw: Draw) -> list[Step]:
    """A replica with a stalled disk loses power after an ack, then the other copy (M13, M19)."""
    slow, other = ("@A", "@B") if draw.chance(0.5) else ("@B", "@A")
    return [
        _cast(draw, "A", "B", "C"),
        _cut_off("@C"),
        _do("disk-stall", slow),
        *_writes(draw, "@A", draw.random.randint(1, 3)),
        _do("kill", slow, draw.span(0.1, 0.8), keep="nothing"),
        _do("kill", other, **draw.keep()),
        _heal("partition", "@C"),
        _heal("kill,stop", slow),
        *_writes(draw, "", 1),
        *_end(draw),
    ]


def at_the_event(draw: Draw) -> list[Step]:
    """A node dies at the instruction of a trace event."""
    event, where = draw.random.choice(_MOMENTS)
    target = draw.random.choice(("leader", "follower", "random"))
    moment = Condition(at="all", event=event, where=where)
    down_ms = draw.span(0.0, 0.3) if draw.chance(0.5) else draw.span(0.1, 2.0)
    return [_down(target, down_ms, until=moment, within_ms=2 * draw.unit_ms, **draw.keep())]


_MOMENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("append", {"role": "leader"}),
    ("append", {"role": "follower"}),
    ("vote", {"granted": True, "pre_vote": False}),
    ("state", {"state": "Candidate"}),
    ("state", {"state": "Leader"}),
    ("epoch-start", {}),
    ("hw", {"role": "leader"}),
    ("truncate", {}),
    ("ack", {}),
)


def _end(draw: Draw) -> list[Step]:
    return [_do("heal", after_ms=draw.span(1.0, 3.0))]


FRAGMENTS: Mapping[str, Fragment] = {
    "stale_candidate": stale_candidate,
    "long_old_log": long_old_log,
    "contested_epoch": contested_epoch,
    "resigned_leader": resigned_leader,
    "figure_8": figure_8,
    "late_responses": late_responses,
    "lost_power": lost_power,
    "at_the_event": at_the_event,
}
"""By name, for the swarm to choose from."""


def strand(name: str, at_ms: float, draw: Draw) -> Strand:
    """Draw a fragment as a strand."""
    return Strand(round(at_ms, 1), tuple(FRAGMENTS[name](draw)))
