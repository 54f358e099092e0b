"""Schedules of faults, computed from the seed before anything starts.

A schedule is a list of entries: a fault with its parameters, the second of the fault phase at which
it is injected, and its length. It is either scripted in the plan or drawn at random; either way it
is stored in the run's plan, so the plan repeats the run even after the drawing code has changed.

A random schedule has quiet times between faults, in which the quorum can recover, and never two
faults at a time, with two exceptions. `nested`: some faults contain another of a different kind,
which begins later and is healed earlier. `shaped`: some turns are a fragment of several faults that
meet (`harness.plan.shapes`); a kind that it aims at the leader has had its turn. Whether a fault
may act on its node's state is decided when it is injected (`nemeses.active_faults`); if not, it is
journaled as refused.

A fault that is refused or has no effect is tried again (`harness.run.nemesis`): shortly after with
the same parameters, then with others. These alternatives are drawn from the seed, too, and stored.
A kind that never took effect gets turns after the schedule.

A schedule holds every kind of fault that the plan names at least once. The first fault of a kind
targets the leader, where the kind can, since that exercises the most of the protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from random import Random
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from cluster.schemas import Place, Schema, rising, where_of
from cluster.values import valueclass
from harness.errors import PlanError
from harness.plan import shapes
from harness.plan.field_types import check_moment
from harness.plan.strands import Step, Strand, check_strand
from nemeses.base import ParameterError
from nemeses.registry import check_fault, fault_named
from nemeses.targets import words_of

LEAD_IN_S = 2.0
"""Quiet time before the first fault, so that acknowledged writes exist by then."""
LEAD_OUT_S = 1.0
"""Quiet time after the last fault."""
OTHERS = 2
"""Number of alternative parameters that are drawn for each fault."""
_STALE_STANDS = 2
"""How many fragments of a shaped schedule are `shapes.stale_stand` before any other, if they fit:
now and then whoever has all writes asks for votes first, and nothing was tried."""
_AGAIN = 4
"""How often a part of a fragment is tried again as it is: together they outlast an election."""


class ScheduleError(ValueError):
    """No such schedule can be made; one line."""


FaultName = Annotated[str, AfterValidator(lambda name: fault_named(name).name)]
Moment = Annotated[float, Field(strict=True, ge=0, le=7 * 86_400)]
Seconds = Annotated[float, Field(strict=True, ge=0.1, le=86_400)]
Span = Annotated[
    tuple[Seconds, Seconds], AfterValidator(rising), Field(description="[least, most] in seconds")
]


@valueclass
class Entry:
    """One fault of a schedule."""

    at_s: Moment
    """Seconds after the fault phase began."""
    fault: FaultName
    parameters: Mapping[str, Any] = field(default_factory=dict)
    for_s: Moment = 0.0
    """How long until it is healed."""
    alternatives: tuple[Mapping[str, Any], ...] = ()
    """Parameters to try in turn while it is refused or has no effect; none: the same again."""

    def to_json(self) -> dict[str, Any]:
        """Render the entry as a plan holds it."""
        alternatives = [dict(parameters) for parameters in self.alternatives]
        return {
            "at_s": self.at_s,
            "fault": self.fault,
            "parameters": dict(self.parameters),
            "for_s": self.for_s,
            **({"alternatives": alternatives} if alternatives else {}),
        }


@valueclass
class RandomSchedule:
    """How a random schedule is drawn."""

    quiet_s: Span = (2.0, 4.0)
    """Shortest and longest quiet time between two faults."""
    fault_s: Span = (4.0, 7.0)
    """Shortest and longest fault. Followers need about 3 s to time out and elect a leader."""
    nested: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.0
    """Share of faults that contain another fault, 0 to 1."""
    shaped: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.0
    """Share of turns that are a shaped fragment, 0 to 1, where the plan has a kind for it; unless
    0, the first ones let a member stand for election that missed writes."""


def draw(
    seed: int,
    kinds: Sequence[str],
    duration_s: float,
    nodes: tuple[str, ...],
    options: RandomSchedule,
    *,
    is_led: bool = True,
) -> tuple[Entry, ...]:
    """Draw the schedule of a seed. Without kinds it is empty.

    `is_led`: whether the system shows a leader; else no fault is aimed at it.

    Raises ScheduleError when the kinds do not all fit into the time, ParameterError when one of
    them is unknown.
    """
    if not kinds:
        return ()
    random = Random(f"{seed}/schedule")
    end_s = duration_s - LEAD_OUT_S
    if end_s - LEAD_IN_S < (needed_s := _least_s(len(kinds), options)):
        least_s = needed_s + LEAD_IN_S + LEAD_OUT_S
        raise ScheduleError(
            f"duration_s: {duration_s:g} s are too short for {', '.join(kinds)}: "
            f"they need {least_s:g} s"
        )
    slack = _slack(len(kinds), end_s - LEAD_IN_S, options)
    due = list(kinds)
    random.shuffle(due)
    entries: list[Entry] = []
    seen: set[str] = set()
    fragments: list[Entry] = []
    is_shaped = options.shaped and is_led and len(nodes) >= shapes.NODES_MIN
    away = [kind for kind in kinds if kind in shapes.AWAY] if is_shaped else []
    maker = shapes.Draw(random, away, nodes, options.quiet_s, options.fault_s)
    at_s, stands = LEAD_IN_S, 0
    while True:
        if away and (stands < _STALE_STANDS or random.random() < options.shaped):
            is_first = stands < _STALE_STANDS
            parts = shapes.stale_stand(maker) if is_first else shapes.fragment(maker)
            after_s = at_s + max(part.end_s for part in parts) + options.quiet_s[1]
            left = [kind for kind in due if not any(part.is_turn_of(kind) for part in parts)]
            if after_s + _least_s(len(left), options) <= end_s:
                fragments += (_part(part, at_s) for part in parts)
                stands += is_first
                due, at_s = left, after_s
                slack = _slack(len(due), end_s - at_s, options)
                continue
        for_s = _between(random, options.fault_s, slack)
        if due:
            kind = due.pop(0)
        elif at_s + for_s <= end_s:
            kind = random.choice(list(kinds))
        else:
            drawn = (*_with_alternatives(seed, entries, nodes, is_led=is_led), *fragments)
            return tuple(sorted(drawn, key=lambda entry: entry.at_s))
        aimed = is_led and kind not in seen
        parameters = _parameters(random, _options(kind, nodes, is_led=is_led), aim_at_leader=aimed)
        seen.add(kind)
        entries.append(Entry(round(at_s, 3), kind, parameters, round(for_s, 3)))
        if options.nested and random.random() < options.nested:
            entries += _inside(random, entries[-1], kinds, nodes, is_led=is_led)
        at_s += for_s + _between(random, options.quiet_s, slack)


def _least_s(kinds: int, options: RandomSchedule) -> float:
    """Return how long so many turns take at least."""
    return kinds * (options.quiet_s[0] + options.fault_s[0]) - options.quiet_s[0]


def _slack(kinds: int, free_s: float, options: RandomSchedule) -> float:
    """Return the share of each range that may be drawn above its least, so that all kinds fit."""
    needed_s = _least_s(kinds, options)
    most_s = kinds * (options.quiet_s[1] + options.fault_s[1]) - options.quiet_s[1]
    return 1.0 if most_s <= free_s else (free_s - needed_s) / (most_s - needed_s)


def _part(part: shapes.Away, at_s: float) -> Entry:
    """Make an entry of a part of a fragment, which is tried again as it is."""
    begin_s, for_s = round(at_s + part.begin_s, 3), round(part.end_s - part.begin_s, 3)
    return Entry(begin_s, part.kind, part.parameters, for_s, (part.parameters,) * _AGAIN)


def _with_alternatives(
    seed: int, entries: Sequence[Entry], nodes: tuple[str, ...], *, is_led: bool
) -> tuple[Entry, ...]:
    """Add alternatives to each entry: its own parameters first, then others."""
    random = Random(f"{seed}/alternatives")
    found = []
    for entry in entries:
        options = _options(entry.fault, nodes, is_led=is_led)
        others = [parameters for parameters in options if parameters != entry.parameters]
        drawn = random.sample(others, min(OTHERS, len(others)))
        found.append(replace(entry, alternatives=(entry.parameters, *map(dict, drawn))))
    return tuple(found)


def _inside(
    random: Random, outer: Entry, kinds: Sequence[str], nodes: tuple[str, ...], *, is_led: bool
) -> list[Entry]:
    """Draw a fault of another kind that begins and ends while the outer one is in force."""
    others = [kind for kind in kinds if kind != outer.fault]
    if not others:
        return []
    kind = random.choice(others)
    at_s = outer.at_s + outer.for_s * random.uniform(0.15, 0.35)
    for_s = outer.for_s * random.uniform(0.3, 0.5)
    parameters = _parameters(random, _options(kind, nodes, is_led=is_led), aim_at_leader=False)
    return [Entry(round(at_s, 3), kind, parameters, round(for_s, 3))]


def _between(random: Random, bounds: tuple[float, float], slack: float) -> float:
    low, high = bounds
    return low + (high - low) * slack * random.random()


def _options(kind: str, nodes: tuple[str, ...], *, is_led: bool) -> tuple[dict[str, Any], ...]:
    """List the parameters to choose from: without a leader none that can never find its target."""
    choices = fault_named(kind).options(nodes)
    if not choices:
        raise ScheduleError(f"{kind} needs more than {len(nodes)} nodes")
    if is_led:
        return choices
    return tuple(choice for choice in choices if not _needs_leader(choice)) or choices


def _needs_leader(parameters: Mapping[str, Any]) -> bool:
    words = [word for value in parameters.values() for word in words_of(value)]
    return any(word in words for word in ("leader", "followers", "leader-to-follower"))


def _parameters(
    random: Random, choices: tuple[dict[str, Any], ...], *, aim_at_leader: bool
) -> dict[str, Any]:
    if aim_at_leader:
        at_leader = [choice for choice in choices if "leader" in choice.values()]
        choices = tuple(at_leader) or choices
    return dict(random.choice(choices))


def steps(entries: Sequence[Entry]) -> list[tuple[float, str, int]]:
    """Order all injections and heals by time: (second, verb, number of the entry).

    At the same moment heals come first; but a fault of length 0 is injected before it is healed.
    """

    def place(turn: tuple[float, str, int]) -> tuple[float, int, int]:
        at_s, verb, number = turn
        return at_s, 1 if verb == "inject" else 0 if entries[number].for_s else 2, number

    turns = []
    for number, entry in enumerate(entries):
        turns.append((entry.at_s, "inject", number))
        turns.append((entry.at_s + entry.for_s, "heal", number))
    return sorted(turns, key=place)


ROWS_MAX = 10_000
ENTRY = Schema(Entry, PlanError)
STRAND = Schema(Strand, PlanError)


def read_rows(
    rows: Sequence[object],
    nodes: tuple[str, ...],
    duration_s: float,
    traced: Collection[str] | None,
) -> tuple[tuple[Entry, ...], tuple[Strand, ...]]:
    """Read and check all rows, for a run of these nodes and this length. Raises PlanError.

    `traced`: the events of the nodes that steps can wait for; None: all.
    """
    if len(rows) > ROWS_MAX:
        raise PlanError(f"schedule must be a list of at most {ROWS_MAX} entries")
    entries: list[Entry] = []
    strands: dict[Place, Strand] = {}
    for number, row in enumerate(rows):
        place: Place = ("schedule", number)
        if isinstance(row, dict) and "steps" in row:
            strands[place] = STRAND.read(row, place=place)
            if any(step.kind != "heal" for step in strands[place].steps):  # the end heals all
                check_moment(place, "at_ms", strands[place].at_ms, 1000.0 * duration_s)
        else:
            entries.append(ENTRY.read(row, place=place))
            _check_entry(entries[-1], nodes, duration_s, place)
    steps = [step for strand in strands.values() for step in strand.steps]
    ids = frozenset(step.options["id"] for step in steps if step.options.get("id"))
    for place, strand in strands.items():
        check_strand(strand, nodes, traced, ids, place)
    return tuple(entries), tuple(strands.values())


def _check_entry(entry: Entry, nodes: tuple[str, ...], duration_s: float, place: Place) -> None:
    where = where_of(place)
    check_moment(place, "at_s", entry.at_s, duration_s)
    if entry.for_s > duration_s:
        most = f"at most {duration_s:g}, the plan's duration_s"
        raise PlanError(f"{where}: for_s must be {most}, not {entry.for_s:g}")
    try:
        for parameters in (entry.parameters, *entry.alternatives):
            check_fault(entry.fault, parameters, nodes)
    except ParameterError as error:
        raise PlanError(f"{where}: {error}") from error


def strand_of(entry: Entry) -> Strand:
    """Rewrite a timed fault as a strand of one step; a strand does not retry a refused fault."""
    parameters = dict(entry.parameters)
    step = Step(
        entry.fault,
        targets=str(parameters.pop("targets", "")),
        for_ms=entry.for_s * 1000.0,
        options=parameters,
    )
    return Strand(entry.at_s * 1000.0, (step,))
