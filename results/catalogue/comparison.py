"""Is a figure worse than that of a baseline, beyond noise? A rank-sum test over whole runs.

A run is one observation. Operations of a run share its machine, its elections and its faults, so
that a test over single operations would take a busy neighbour for thousands of independent proofs;
runs of another seed, hour or place are as independent as anything that is measured here.

**The test.** Wilcoxon's rank-sum test (Wilcoxon 1945; Mann and Whitney 1947), one-sided: were both
samples drawn from the same distribution, how probable is it that the ranks of the new runs are as
far on the worse side as they are? It assumes nothing of the distribution, which for latencies under
faults has a heavy tail. Up to `EXACT_MAX` runs of both sides together the probability is exact: the
number of ways to choose as many ranks with at least that sum, over all ways, by the recurrence over
the ranks. Values that are equal share their mean rank (mid-ranks), for which the recurrence is
exact as well; ranks are doubled, so that they stay whole. Of more runs it is the normal
approximation with the variance corrected for ties (Lehmann, Nonparametrics, 1975, section 1.4).

**Beyond noise** is a p below the level, and besides a shift that matters: the Hodges-Lehmann
estimate, the median of all ratios of a new run to one of the baseline, is worse than 1 by more than
the tolerance. With many runs a test finds differences that nobody would feel.

**Its limit.** Of m and n runs p cannot be below 1 / C(m + n, n): with 3 and 3 runs 0.05, with 5 and
5 runs 0.004. Where that is above the level, no difference however large could be found, and the
comparison is UNKNOWN rather than a PASS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from checkers.verdict import Status
from results.store.facts import Stratum

FIGURES: Mapping[str, bool] = {
    "write_p50_ms": True,
    "write_p99_ms": True,
    "read_p50_ms": True,
    "read_p99_ms": True,
    "throughput_per_s": False,
    "unavailability_s": True,
    "recovery_s": True,
}
"""Name of each figure that is compared with a baseline -> whether higher is worse."""
EXACT_MAX = 50
"""Runs of both sides for which counting takes well below a second."""
_LEAST = 1e-3
"""Figures below it (a thousandth of a millisecond, of a second) are equal to it: a ratio needs a
divisor, and nothing here is measured more finely."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the figures of new runs stand to those of a baseline."""

    p: float
    """Of the one-sided rank-sum test: small where the new runs are worse."""
    p_min: float
    """The least that so many runs could have given."""
    ratio: float
    """Hodges-Lehmann estimate of new to baseline."""
    new_median: float
    baseline_median: float

    def status(self, level: float, tolerance: float, *, higher_is_worse: bool) -> Status:
        """Return FAIL where the new runs are worse beyond noise, and by more than the tolerance.

        UNKNOWN where so few runs could not have shown it at this level.
        """
        if self.p_min > level:
            return Status.UNKNOWN
        bound = 1 + tolerance
        beyond = self.ratio > bound if higher_is_worse else self.ratio < 1 / bound
        return Status.FAIL if beyond and self.p <= level else Status.PASS


def compare(
    new: Sequence[float], baseline: Sequence[float], *, higher_is_worse: bool
) -> Comparison:
    """Compare two samples of finite numbers from 0 on, neither empty."""
    assert new, "there are new runs"
    assert baseline, "there are runs of the baseline"
    xs = [max(x, _LEAST) for x in new]
    ys = [max(y, _LEAST) for y in baseline]
    sign = 1 if higher_is_worse else -1
    ratios = [x / y for x in xs for y in ys]
    return Comparison(
        p=rank_sum_p([sign * x for x in xs], [sign * y for y in ys]),
        p_min=1 / math.comb(len(xs) + len(ys), len(xs)),
        ratio=median(ratios),
        new_median=median(xs),
        baseline_median=median(ys),
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of runs that did the same, on both sides."""

    stratum: Stratum
    figure: str
    new: Sequence[float]
    baseline: Sequence[float]
    level: float
    """Probability of a false alarm of this comparison alone."""
    found: Comparison | None
    """None where a side has no such figure."""
    status: Status
    """FAIL where the new runs are worse, UNKNOWN where nothing could be shown."""


Samples = Mapping[Stratum, Mapping[str, Sequence[float]]]
"""Stratum -> figure -> its value in each run (`results.store.facts.by_stratum`)."""


def compare_all(
    names: Sequence[tuple[Stratum, str]],
    new: Samples,
    baseline: Samples,
    *,
    level: float,
    tolerance: float,
) -> list[Compared]:
    """Compare figures of strata; `level` is that of all comparisons together (Bonferroni)."""
    found = []
    for stratum, figure in names:
        sides = new.get(stratum, {}).get(figure, []), baseline.get(stratum, {}).get(figure, [])
        result, status, share = None, Status.UNKNOWN, level / len(names)
        if all(sides):
            worse = FIGURES[figure]
            result = compare(*sides, higher_is_worse=worse)
            status = result.status(share, tolerance, higher_is_worse=worse)
        found.append(Compared(stratum, figure, *sides, share, result, status))
    return found


def rank_sum_p(xs: Sequence[float], ys: Sequence[float], *, exact_max: int = EXACT_MAX) -> float:
    """Return the probability of a rank sum of `xs` as large as theirs, or larger.

    Exact up to `exact_max` numbers in all.
    """
    ranks = _doubled_ranks([*xs, *ys])
    observed = sum(ranks[: len(xs)])
    if len(ranks) > exact_max:
        return _by_normal(ranks, len(xs), observed)
    # ways[k][s]: in how many ways k of the ranks seen so far have the sum s.
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in xs)]
    for seen, rank in enumerate(ranks):
        for k in range(min(seen + 1, len(xs)), 0, -1):
            into = ways[k]
            for total, count in ways[k - 1].items():
                into[total + rank] = into.get(total + rank, 0) + count
    at_least = sum(count for total, count in ways[len(xs)].items() if total >= observed)
    return at_least / math.comb(len(ranks), len(xs))


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the mid-rank of each value: of equal ones, the mean of the ranks they take."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    ranks = [0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for at in order[begin:end]:
            ranks[at] = begin + end + 1  # (begin + 1) + end: first and last of the ranks
        begin = end
    return ranks


def _by_normal(ranks: Sequence[int], chosen: int, observed: int) -> float:
    """Approximate the probability that `chosen` of the doubled ranks add up to `observed` or more.

    Mean and variance of a sum that is drawn without replacement from these very ranks, so that ties
    are accounted for; a doubled sum moves in steps of two, hence the correction by one.
    """
    count = len(ranks)
    mean = sum(ranks) / count
    spread = sum((rank - mean) ** 2 for rank in ranks) / count
    variance = chosen * (count - chosen) / (count - 1) * spread
    if variance == 0:
        return 1.0  # all are equal
    return 1 - NormalDist().cdf((observed - 1 - chosen * mean) / math.sqrt(variance))
