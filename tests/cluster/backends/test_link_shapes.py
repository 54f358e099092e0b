"""Shapes of links as values, and the wire on which the shaper lets packets travel."""

import asyncio
import random
from types import SimpleNamespace

import pytest

from cluster.backends.abilities import Completed, LinkShape, ShapeMeasure
from cluster.backends.agent.shaper import Wire
from cluster.backends.base import BackendError
from cluster.backends.links.probe import Arrivals
from cluster.backends.links.shapes import PERFECT, combine, left_effects, missing_effects
from cluster.backends.links.shaping import HostShaping

pytestmark = pytest.mark.slow

CLEAN = ShapeMeasure(
    round_trip_ms=0.2, lost=0.0, spread_ms=0.1, duplicated=0.0, overtaking=0.0, probes=200
)


def seen(**measured: float) -> ShapeMeasure:
    known = {name: getattr(CLEAN, name) for name in CLEAN.__slots__}
    return ShapeMeasure(**(known | measured))


def wire(**shape: float | None) -> Wire:
    perfect = {"delay_ms": 0.0, "jitter_ms": 0.0, "reorder": 0.0, "duplicate": 0.0}
    return Wire({**perfect, "rate_kbit_s": None, **shape})


def test_of_every_part_the_worst_shape_holds():
    both = combine(
        [
            LinkShape(loss=0.1, delay_ms=50, rate_kbit_s=100),
            LinkShape(loss=0.2, duplicate=0.3, rate_kbit_s=80),
        ]
    )
    assert both == LinkShape(loss=0.2, delay_ms=50, duplicate=0.3, rate_kbit_s=80)
    assert combine([]) == PERFECT


@pytest.mark.parametrize(
    ("shape", "bites"),
    [
        (LinkShape(loss=0.2), seen(lost=0.17)),
        (LinkShape(delay_ms=100), seen(round_trip_ms=100.3)),
        (LinkShape(delay_ms=100, jitter_ms=50), seen(round_trip_ms=120.0, spread_ms=40.0)),
        (LinkShape(reorder=0.25), seen(overtaking=0.2)),
        (LinkShape(duplicate=0.2), seen(duplicated=0.22)),
        (LinkShape(rate_kbit_s=256), seen(rate_kbit_s=250.0, round_trip_ms=300.0)),
    ],
)
def test_a_shape_is_missing_from_a_clean_link_and_left_on_one_that_still_has_it(shape, bites):
    assert missing_effects(shape, PERFECT, bites) == []
    assert missing_effects(shape, PERFECT, CLEAN) != []
    assert left_effects(shape, PERFECT, PERFECT, CLEAN) == []
    assert left_effects(shape, PERFECT, PERFECT, bites) != []


def test_more_loss_than_asked_is_not_what_was_asked():
    assert missing_effects(LinkShape(loss=0.1), PERFECT, seen(lost=0.6)) != []
    assert missing_effects(LinkShape(delay_ms=10), PERFECT, seen(round_trip_ms=11, lost=0.5)) != []


def test_what_could_not_be_measured_is_not_verified():
    nothing = ShapeMeasure(round_trip_ms=None, lost=None)
    assert missing_effects(LinkShape(loss=0.1), PERFECT, nothing) == ["nothing could be measured"]
    assert left_effects(LinkShape(loss=0.1), PERFECT, PERFECT, nothing) != []


def test_both_directions_of_a_delay_are_expected_in_a_round_trip():
    shape = LinkShape(delay_ms=100)
    assert missing_effects(shape, shape, seen(round_trip_ms=110.0)) != []
    assert missing_effects(shape, shape, seen(round_trip_ms=201.0)) == []


def test_a_jittered_delay_is_judged_by_what_chance_does_to_a_median():
    shape = LinkShape(delay_ms=60, jitter_ms=20)
    chance = random.Random(1)
    for probes in (12, 200):
        for _ in range(2000):
            trips = sorted(chance.uniform(40, 80) for _ in range(probes))
            spread = trips[-1] - trips[0]
            found = seen(round_trip_ms=trips[probes // 2], spread_ms=spread, probes=probes)
            assert missing_effects(shape, PERFECT, found) == []
        half = seen(round_trip_ms=29.0, spread_ms=20.0, probes=probes)
        assert "round trip" in missing_effects(shape, PERFECT, half)[0]
    many = seen(round_trip_ms=46.0, spread_ms=20.0, probes=200)
    assert "round trip" in missing_effects(shape, PERFECT, many)[0]


def test_a_probe_counts_what_was_lost_repeated_and_overtook():
    arrivals = Arrivals(5, (0, 2, 1, 1, 4), (0.0, 1.0, 2.0, 3.0, 4.0), (), 0.0)
    assert arrivals.lost == pytest.approx(0.2)
    assert arrivals.duplicated == pytest.approx(0.2)
    assert arrivals.overtaking == pytest.approx(0.2), "2 came before 1"
    assert arrivals.rate_kbit_s(1000, 0.0) == pytest.approx(3 * 8000 / 4)


@pytest.mark.parametrize(
    ("at_ms", "took_ms", "packets", "ms"),
    [
        ((0.0, 0.0, 0.0, 10.0, 20.0), 54.0, 5, 50.0),  # the first was 30 ms late
        ((0.0, 10.0, 20.0, 30.0, 40.0), 14.0, 4, 40.0),  # all answers but the first were lost
        ((0.0, 0.0, 0.0, 0.0, 0.0), 0.0, None, 0.0),
    ],
)
def test_the_rate_of_a_link_is_that_of_the_wire_though_packets_come_late(
    at_ms, took_ms, packets, ms
):
    """Packets of 1000 bytes on a wire that carries one in 10 ms; 4 ms are for their travel."""
    arrivals = Arrivals(5, (0, 1, 2, 3, 4), at_ms, (), took_ms)
    rate = None if packets is None else pytest.approx(packets * 8000 / ms)
    assert arrivals.rate_kbit_s(1000, 4.0) == rate


def test_a_wire_with_a_rate_carries_one_packet_after_the_other_and_drops_a_long_backlog():
    slow = wire(rate_kbit_s=80)  # 10 bytes a millisecond
    assert slow.departures(0.0, 1000) == [pytest.approx(0.1)]
    assert slow.departures(0.0, 1000) == [pytest.approx(0.2)]
    assert slow.departures(5.0, 1000) == [pytest.approx(5.1)], "it was free again"
    waiting = [slow.departures(5.0, 1000) for _ in range(30)]
    assert waiting[-1] == []
    assert max(wait[0] for wait in waiting if wait) < 7.2


def test_a_delay_with_jitter_lets_nothing_overtake():
    shaken = wire(delay_ms=100, jitter_ms=100)
    at = [shaken.departures(number / 1000, 100)[0] for number in range(500)]
    assert at == sorted(at)
    assert min(at) < max(at) - 0.4


def test_reordered_packets_overtake_even_without_a_delay():
    mixed = wire(reorder=0.5)
    ahead = [mixed.departures(0.0, 100)[0] == 0.0 for _ in range(1000)]
    assert 350 < sum(ahead) < 650
    assert wire(duplicate=1.0).departures(1.0, 100) == [1.0, 1.0]


def test_a_shape_that_a_host_refused_to_take_away_is_taken_away_by_the_next_heal():
    link, rules, refusing = ("n1", "n2"), [], [False]

    async def run(_command, *, stdin=b"", timeout_s=10.0):
        del timeout_s
        if not refusing[0]:
            rules[:] = [stdin]
        return Completed(int(refusing[0]), b"", b"no")

    hosts = {n: SimpleNamespace(node=n, address=f"10.0.0.{n[1]}", run=run) for n in link}
    shaping = HostShaping(hosts, "run-1", SimpleNamespace())

    async def body():
        await shaping.shape({link: LinkShape(loss=0.5)})
        assert b"drop" in rules[0]
        refusing[0] = True
        with pytest.raises(BackendError):
            await shaping.shape({link: PERFECT})
        refusing[0] = False
        await shaping.shape({link: PERFECT})

    asyncio.run(body())
    assert b"drop" not in rules[0]
    assert shaping.shapes() == {}
