"""Shaped fragments of schedules, with random parameters.

Losing a committed record takes three or four faults in the right order, which uniformly random
faults seldom produce. Each fragment here is such an order, known from a real or a published bug;
the times, the targets and the omitted steps are drawn. The swarm mixes them with plain random
faults, which varies the known order into new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.plan.strands import Condition, Step
from harness.sim.swarm.steps import ESTABLISHED, Draw, cut_off, do, heal, kill_parameters

Fragment = Callable[[Draw], list[Step]]
_KEPT = ("any", "nothing", "nothing", "everything")
"""What a kill keeps."""


def _cast(draw: Draw, *names: str) -> Step:
    """Cast the leader as the first name and followers as the others."""
    followers = dict.fromkeys(names[1:], "follower")
    names_of = {names[0]: "leader", **followers}
    return do("cast", until=ESTABLISHED, within_ms=6 * draw.unit_ms, names=names_of)


def _lose(fault: str, targets: str, after_ms: float) -> Step:
    """Take nodes away from the others, by a partition or a fault of the process."""
    return cut_off(targets, after_ms) if fault == "partition" else do(fault, targets, after_ms)


def _down(targets: str, for_ms: float, **options: Any) -> Step:
    """Kill nodes, or stop them if `graceful`, and start them again."""
    if options.pop("graceful", False):
        return do("stop", targets, for_ms=for_ms)
    return do("kill", targets, for_ms=for_ms, **options)


def _writes(draw: Draw, targets: str, count: int) -> list[Step]:
    """Draw when; what is written follows from the plan's workload."""
    return [do("op", targets, 0.0 if number else draw.span(0.02, 0.2)) for number in range(count)]


def _hurry(draw: Draw, targets: str) -> Step:
    """Let a node's time-outs expire before those of the others."""
    return do(
        "timer-rate", targets, for_ms=draw.span(1, 2), rate=round(draw.random.uniform(3, 12), 1)
    )


def stale_candidate(draw: Draw) -> list[Step]:
    """A voter misses writes; the leader is lost and that voter is the first candidate (M01)."""
    steps = [
        _cast(draw, "A", "B", "C"),
        cut_off("@C"),
        *_writes(draw, "@A", draw.random.randint(1, 3)),
        _lose("partition" if draw.chance(0.6) else "kill", "@A", draw.span(0.1, 1.0)),
        heal("partition", "@C", draw.span(0.0, 0.3)),
        _hurry(draw, "@C"),
        *_writes(draw, "@C", draw.random.randint(0, 2)),
    ]
    return [*steps, do("heal", after_ms=draw.span(1.0, 3.0))]


def long_old_log(draw: Draw) -> list[Step]:
    """A leader that is cut off appends much; the others commit less, then lose their leader (M02).

    If they keep their leader, the first one returns with a diverging tail (M21, M25).
    """
    steps = [
        _cast(draw, "A", "B", "C"),
        cut_off("@A"),
        *_writes(draw, "@A", draw.random.randint(2, 6)),
        do(
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
        steps += [heal("partition", "@A", draw.span(0, 0.2)), _hurry(draw, "@A")]
    else:
        steps.append(heal("partition", "@A", draw.span(0.0, 0.5)))
    return [*steps, do("heal", after_ms=draw.span(1.0, 3.0))]


def contested_epoch(draw: Draw) -> list[Step]:
    """Two candidates in one epoch; the voter, or the winner, dies and then gets the loser's Vote.

    The winner gets it when it starts, or when it leaves Resigned. (M03, M04, M06, M09.)
    """
    start: list[Step] = [
        _cast(draw, "C", "A", "B"),
        do("hold", links="@A-@B", types="VoteRequest,VoteResponse"),
        do("hold", links="@A>@C,@B>@C" if draw.chance(0.2) else "@A-@B", types="VoteRequest"),
        _down("@C", draw.span(0.0, 0.1), **draw.keep(*_KEPT), graceful=draw.chance(0.2)),
    ]
    end = [do("release", after_ms=draw.span(0.02, 0.4)), *_end(draw)]
    end_of = draw.random.choice(("voter", "winner", "resigned"))
    if end_of == "voter":
        return [*start, _voter_forgets(draw), *end]
    keep = kill_parameters("nothing") if draw.chance(0.7) else draw.keep(*_KEPT)
    if end_of == "winner":
        won = Condition(event="state", where={"state": "Leader"})
        down_ms = round(draw.random.uniform(0.0, 0.1) * draw.unit_ms, 1)
        again = _down("leader", down_ms, until=won, within_ms=4 * draw.unit_ms, **keep)
        return [*start, again, *end]
    left = Condition(at="@W", event="state", where={"state": "Unattached"})
    return [
        *start,
        do(
            "cast",
            until=Condition(event="state", where={"state": "Leader"}),
            within_ms=4 * draw.unit_ms,
            names={"W": "leader"},
        ),
        do("kill", "@W", **keep),
        do("hold", links="all>@W"),
        heal("kill,stop", "@W"),
        do("wait", until=left, within_ms=3 * draw.unit_ms),
        do("release", links="@A>@W,@B>@W"),
        do("release", after_ms=draw.span(0.05, 0.3)),
        *_end(draw),
    ]


def _voter_forgets(draw: Draw) -> Step:
    """Kill the voter at its vote, or damage its quorum-state file."""
    granted = Condition(at="@C", event="vote", where={"granted": True, "pre_vote": False})
    within_ms = 4 * draw.unit_ms
    if draw.chance(0.15):
        return do("bit-flip", "@C", until=granted, within_ms=within_ms, file="quorum-state")
    down_ms = round(draw.random.uniform(0.0, 0.1) * draw.unit_ms, 1)
    return _down("@C", down_ms, until=granted, within_ms=within_ms, **draw.keep(*_KEPT))


def resigned_leader(draw: Draw) -> list[Step]:
    """A leader resigns, cut off or stopped, and late votes of its epoch reach it (M09)."""
    steps = [
        _cast(draw, "A", "B", "C"),
        do("hold", links="@B>@A,@C>@A", types="VoteRequest,FetchRequest"),
    ]
    if draw.chance(0.5):
        steps.append(cut_off("@A", for_ms=draw.span(1.0, 3.0)))
    else:
        steps.append(_down("@A", draw.span(0.0, 0.3), graceful=draw.chance(0.5)))
    return [*steps, do("release", after_ms=draw.span(0.5, 2.0)), *_end(draw)]


def figure_8(draw: Draw) -> list[Step]:
    """A record of an old epoch reaches a majority in a later one, and its leader dies (M17).

    Figure 8 of the Raft paper: counting replicas commits no record of an earlier epoch.
    """
    won_again = Condition(at="@A", state="Leader")
    caught = Condition(at="@B", event="append", where={"role": "follower"})
    return [
        _cast(draw, "A", "B", "C"),
        cut_off("@A"),
        *_writes(draw, "@A", draw.random.randint(1, 2)),
        do("kill", "@A", draw.span(0.05, 0.3), keep="everything"),
        heal("partition", "@A"),
        _hurry(draw, "@C"),
        do(
            "partition",
            shape="links",
            links="@C>@B",
            until=Condition(at="@C", event="epoch-start"),
            within_ms=4 * draw.unit_ms,
        ),
        do("kill", "@C", draw.span(0.02, 0.3), keep="everything"),
        heal("partition", "@C"),
        heal("kill,stop", "@A"),
        _hurry(draw, "@A"),
        do("wait", until=won_again, within_ms=5 * draw.unit_ms),
        do("wait", until=caught, within_ms=draw.unit_ms),
        do("kill", "@A", round(draw.random.uniform(0.0, 30.0), 1), **draw.keep(*_KEPT)),
        heal("kill,stop", "@C"),
        _hurry(draw, "@C"),
        *_end(draw),
    ]


def late_responses(draw: Draw) -> list[Step]:
    """Fetch responses are held over time-outs and elections, then delivered (M22, M23)."""
    steps = [
        _cast(draw, "A", "B", "C"),
        do("hold", links="@A>@B", types="FetchResponse"),
        *_writes(draw, "@A", draw.random.randint(1, 3)),
    ]
    if draw.chance(0.6):
        steps.append(_lose(draw.random.choice(("kill", "partition")), "@A", draw.span(0.1, 0.6)))
        steps += _writes(draw, "", draw.random.randint(0, 2))
    steps.append(do("release", after_ms=draw.span(0.1, 2.0)))
    return [*steps, *_end(draw)]


def lost_power(draw: Draw) -> list[Step]:
    """A replica with a stalled disk loses power after an ack, then the other copy (M13, M19)."""
    slow, other = ("@A", "@B") if draw.chance(0.5) else ("@B", "@A")
    return [
        _cast(draw, "A", "B", "C"),
        cut_off("@C"),
        do("disk-stall", slow),
        *_writes(draw, "@A", draw.random.randint(1, 3)),
        do("kill", slow, draw.span(0.1, 0.8), keep="nothing"),
        do("kill", other, **draw.keep(*_KEPT)),
        heal("partition", "@C"),
        heal("kill,stop", slow),
        *_writes(draw, "", 1),
        *_end(draw),
    ]


def at_the_event(draw: Draw) -> list[Step]:
    """A node dies at the instruction of a trace event."""
    event, where = draw.random.choice(_MOMENTS)
    target = draw.random.choice(("leader", "follower", "random"))
    moment = Condition(at="all", event=event, where=where)
    down_ms = draw.span(0.0, 0.3) if draw.chance(0.5) else draw.span(0.1, 2.0)
    return [_down(target, down_ms, until=moment, within_ms=2 * draw.unit_ms, **draw.keep(*_KEPT))]


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
    return [do("heal", after_ms=draw.span(1.0, 3.0))]


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
