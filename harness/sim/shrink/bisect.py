"""Which releases of Kafka's raft module have the finding of a red plan, and with what certainty.

A plan is red on one release. From there the search goes to older releases until one has not the
finding, and to newer ones likewise: it takes what has the finding to lie together. Halving would
try fewer releases, but one that has the finding costs a few seeds, and one that has it not costs
all that are needed to say so; this order meets at most two of those.

*Has* is certain: a seed violates the property. *Has not* is a claim about chance. Let p be the
share of seeds that are red. If a release had the finding at this rate, n seeds without it would
come by chance with probability (1 - p)^n. Now p is not known, but measured on the red release:
seeds are played until `HITS` are red, m in all. The lower bound q of Clopper and Pearson, the root
of P(Binomial(m, q) >= HITS) = e, lies above p with probability e at most, for this inverse sampling
as for a fixed m, and so where the time ends the sampling first. The seed of the plan is left out:
it was chosen because it is red. With n >= ln e / ln(1 - q) a release is missed with probability
e + e at most, and of two such releases at least one with 3 e, so e is a third of the stated error.

What is assumed: that a release which has the finding has it at least as often as the red one. A
change that makes it rarer, or a plan that no longer gets there (it waits for an event that another
release does not trace), looks like its absence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from cluster.systems.kafka_raft import VERSION
from harness.plan.plan import Plan
from harness.sim.findings import Violation
from harness.sim.play import play
from harness.sim.runner import run

HITS = 10
"""Red seeds that measure the rate: with all seeds red, q is 0.56 for an error of 0.01."""
_SAMPLING_SHARE = 0.4
"""Share of the time after which the rate is taken from the seeds so far."""
_PRECISION = 60
"""Halvings of the interval of q."""

Finding = tuple[str, str]


def finding(violation: Violation) -> Finding:
    """Return what stays the same in another release: the property, and what ended a raft thread.

    Where it ended is left out, as methods move, and so are nodes and numbers.
    """
    if violation.property != "node-died":
        return violation.property, ""
    return violation.property, violation.causes[-1].partition(" (")[0]


def rate_bound(hits: int, seeds: int, error: float) -> float:
    """Return the rate that is exceeded with probability 1 - `error`, from so many red seeds.

    0 where none was red.
    """
    low, high = 0.0, hits / seeds if seeds else 0.0
    for _ in range(_PRECISION):
        middle = (low + high) / 2
        fewer = sum(
            math.comb(seeds, count) * middle**count * (1 - middle) ** (seeds - count)
            for count in range(hits)
        )
        low, high = (middle, high) if 1 - fewer < error else (low, middle)
    return low


def seeds_needed(rate: float, error: float) -> int | None:
    """Return how many seeds show a finding of this rate, but with probability `error`."""
    if rate <= 0.0:
        return None
    return max(1, math.ceil(math.log(error) / math.log1p(-rate)))


@dataclass(slots=True)
class Tried:
    """What is known of one release."""

    release: str
    seeds: int = 0
    """How many were played."""
    red: int = 0
    has: bool | None = None
    """Whether it has the finding; None: not known."""


@dataclass(slots=True)
class Bisection:
    """The search, and what it found so far."""

    plan: Plan
    wanted: Finding
    releases: Sequence[str]
    """Oldest first, with that of the plan."""
    error: float
    brief: bool = False
    """Runs end with the fault phase: the violation came before its end."""
    tried: dict[str, Tried] = field(default_factory=dict)
    rate: float = 0.0
    """The lower bound of the share of red seeds on the release of the plan."""
    needed: int | None = None
    """Seeds without the finding that a release needs which has it not; None: no rate is known."""

    def search(self, spent: Callable[[], float], report: Callable[[Tried], None]) -> None:
        """Try releases until the answer is known, or `spent` returns 1 or more: all of the time."""
        share, first = self.error / 3, self.releases.index(self.plan.system_options[VERSION])
        red = self._start(self.releases[first])
        red.has = True
        while red.red < HITS and spent() < _SAMPLING_SHARE:
            self._play(red, 1 + red.seeds, report)
        self.rate = rate_bound(red.red, red.seeds, share)
        self.needed = seeds_needed(self.rate, share)
        self._walk(reversed(self.releases[:first]), spent, report)
        self._walk(self.releases[first + 1 :], spent, report)

    def _walk(
        self, releases: Iterable[str], spent: Callable[[], float], report: Callable[[Tried], None]
    ) -> None:
        """Try releases up to the first that has the finding not."""
        for release in releases:
            tried = self._start(release)
            while not tried.red and (self.needed or 1) > tried.seeds and spent() < 1:
                self._play(tried, tried.seeds, report)
            if tried.red:
                tried.has = True
            elif self.needed is not None and tried.seeds >= self.needed:
                tried.has = False
            report(tried)
            if not tried.has:
                return

    def _start(self, release: str) -> Tried:
        return self.tried.setdefault(release, Tried(release))

    def _play(self, tried: Tried, number: int, report: Callable[[Tried], None]) -> None:
        plan = replace(
            self.plan,
            seed=self.plan.seed + number,
            system_options={**self.plan.system_options, VERSION: tried.release},
        )
        tried.red += is_red(plan, self.wanted, brief=self.brief)
        tried.seeds += 1
        report(tried)

    @property
    def first_with(self) -> str | None:
        """The oldest release known to have the finding."""
        return next((each for each in self.releases if self._has(each)), None)

    @property
    def last_without(self) -> str | None:
        """The release before it, which has it not; None: there is none, or it is not known."""
        return self._without(self.releases[: self.releases.index(self.first_with or "")])

    @property
    def first_without(self) -> str | None:
        """The first release after it that has it not; None: there is none, or it is not known."""
        last = max(number for number, each in enumerate(self.releases) if self._has(each))
        return self._without(self.releases[last + 1 :][:1])

    def _without(self, releases: Sequence[str]) -> str | None:
        return next((each for each in releases[-1:] if self._has(each) is False), None)

    def _has(self, release: str) -> bool | None:
        tried = self.tried.get(release)
        return None if tried is None else tried.has

    @property
    def is_sure(self) -> bool:
        """Whether the answer is known: each release beside those with the finding has it not."""
        return all(tried.has is not None for tried in self.tried.values()) and (
            self._is_closed(self.releases) and self._is_closed(self.releases[::-1])
        )

    def _is_closed(self, releases: Sequence[str]) -> bool:
        first = next((each for each in releases if each in self.tried), None)
        return first is not None and (first == releases[0] or self._has(first) is False)


def is_red(plan: Plan, wanted: Finding, *, brief: bool) -> bool:
    """Whether a run has the finding, whatever else it violates."""
    only = frozenset({wanted[0]})
    if brief:
        violations = play(plan, brief=True, wanted=only).violations
    else:
        violations = list(run(plan, only)[1].violations)
    return any(finding(violation) == wanted for violation in violations)
