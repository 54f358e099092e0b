"""The canary of a gate: a faulty node that the worlds of `sim` must find, here and now.

A gate that opens says that nothing was found. That means something only if what judges finds what
is there (docs/gate.md), so each gate plays one simulated world of a node with a known bug. Which
bug and which world follows from the seeds of the runs alone: whoever has the runs draws the same
canary, and nothing of it is stored that could be forged. A canary that is not found makes the gate
UNKNOWN, whatever the runs say.

Only mutants are drawn that almost every world shows, and each must be found by the rule that is
made for it: so a rule that is lost, or a simulation that breaks for another reason, is no alarm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from random import Random
from typing import Final

from checkers.verdict import Status
from harness.sim.batch.chunks import run_seed
from harness.sim.swarm.draw import draw
from results.gate.policy_gate import GateEntry, Requirement

ALARMS: Final[Mapping[str, str]] = {
    "I01": "elected-by-majority",
    "I02": "one-vote",
    "I03": "monotonic-epoch",
    "I07": "claim-after-replay",
    "I08": "log-matching",
    "M03": "durable-vote",
    "M15": "majority-durable",
    "M18": "majority-counted",
    "M19": "durable-fetch",
    "M31": "read-confirmed",
    "M32": "ack-committed",
}
"""Mutant -> the rule that must find it."""
WORLDS_MAX: Final = 5
"""A world in which the bug has no effect is followed by another; all of them are silent with a
probability of one in millions."""
_SEEDS: Final = 2**31
_NAME: Final = "canary"


def canary_of(entries: Iterable[GateEntry]) -> Requirement:
    """Draw the canary of a gate from the seeds of its runs, and play it."""
    found = [entry.facts for entry in entries if entry.facts is not None]
    return canary(tuple(sorted({facts.seeds[0] for facts in found if facts.seeds})))


@cache
def canary(seeds: tuple[int, ...]) -> Requirement:
    """Play the canary that the first seeds of runs draw: a fraction of a CPU second."""
    random = Random(f"canary/{seeds}")
    mutant = random.choice([*ALARMS])
    rule, first = ALARMS[mutant], random.randrange(_SEEDS)
    for seed in range(first, first + WORLDS_MAX):
        row = run_seed(draw(seed, mutant=mutant), frozenset({rule}))
        if row["property"] == rule:
            command = f"kraftprobe sim --seed {seed} --mutant {mutant}"
            return Requirement(_NAME, Status.PASS, f"{rule} FAILs, as it must: {command}")
    sentence = (
        f"{rule} does not find mutant {mutant} in the worlds of seeds {first} to "
        f"{first + WORLDS_MAX - 1}: what misses a known bug proves nothing about a release"
    )
    return Requirement(_NAME, Status.UNKNOWN, sentence)
