"""Shapes of links as values: how they combine, and whether a measurement shows them.

Shares are judged by what chance allows, four and a half standard deviations of as many packets as
were sent; a fault that bites is called missing once in 100,000 measurements. Times are judged
downwards only, as a busy machine adds to them; where they jitter, by as many standard deviations
of the median of as many packets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from cluster.backends.abilities import LinkShape, ShapeMeasure, Shaping
from cluster.backends.terms import ONE_NODE, Probe

PERFECT = LinkShape()

_SIGMAS = 4.5
_STRAY_LOSS = 0.02
"""Of packets that a busy machine loses by itself."""
_STRAY_MS = 50.0
"""Round trip that a busy machine may need by itself."""
_JITTER_SEEN = 0.2
"""Part of the jitter that the middle nine tenths of round trips must spread over at least."""
_SHARES = (("loss", "lost"), ("duplicate", "duplicated"), ("reorder", "overtaking"))


def combine(shapes: Iterable[LinkShape]) -> LinkShape:
    """Lay shapes over one another: of every part the worst one holds."""
    laid = list(shapes)
    rates = [shape.rate_kbit_s for shape in laid if shape.rate_kbit_s is not None]
    worst = {
        part.name: max((getattr(shape, part.name) for shape in laid), default=0.0)
        for part in fields(LinkShape)
        if part.name != "rate_kbit_s"
    }
    return LinkShape(**worst, rate_kbit_s=min(rates, default=None))


async def try_shape(shaping: Shaping, nodes: Sequence[str], shape: LinkShape) -> Probe:
    """Give the first link the shape, measure, give back what it had. Raises BackendError."""
    if len(nodes) < 2:
        return ONE_NODE
    link = (nodes[0], nodes[1])
    before, back = (shaping.shapes().get(each, PERFECT) for each in (link, link[::-1]))
    try:
        await shaping.shape({link: shape})
        seen = await shaping.measure(link)
    finally:
        await shaping.shape({link: before})
    missing = "; ".join(missing_effects(shape, back, seen))
    return Probe(possible=not missing, reason=missing)


def missing_effects(shape: LinkShape, back: LinkShape, seen: ShapeMeasure) -> list[str]:
    """Say what a measure does not show though the link's shape prescribes it.

    `back` is the shape of the opposite link, over which answers come. Empty: it bites.
    """
    if seen.lost is None:
        return ["nothing could be measured"]
    if max(shape.loss, back.loss) >= 1.0:  # it hides all else
        shape, back = LinkShape(loss=shape.loss), PERFECT
    wrong = []
    for part, measured in _SHARES:
        wanted, got = getattr(shape, part), getattr(seen, measured)
        if not wanted or got is None:
            continue
        # A packet that may overtake does not always find one to overtake; most do.
        low = (wanted / 2 if part == "reorder" else wanted) - _spread(wanted, seen.probes)
        if part != "loss":
            low *= 1 - shape.loss  # what is lost cannot show anything else
        if got <= 0 or got < low:
            wrong.append(f"{part} {wanted:.1%} asked, {got:.1%} seen")
    most = shape.loss + _spread(shape.loss, seen.probes) + _STRAY_LOSS
    if seen.lost > most and not shape.rate_kbit_s:
        wrong.append(f"loss {shape.loss:.1%} asked, {seen.lost:.1%} seen")
    return wrong + _missing_times(shape, back, seen)


def _missing_times(shape: LinkShape, back: LinkShape, seen: ShapeMeasure) -> list[str]:
    wrong = []
    travel_ms = shape.delay_ms + back.delay_ms
    least_trip_ms = 0.9 * travel_ms - _median_spread(shape.jitter_ms + back.jitter_ms, seen.probes)
    if shape.delay_ms and (seen.round_trip_ms is None or seen.round_trip_ms < least_trip_ms):
        wrong.append(f"round trip of {travel_ms:g} ms asked, {_number(seen.round_trip_ms)} ms seen")
    least_ms = _JITTER_SEEN * shape.jitter_ms
    if shape.jitter_ms and seen.spread_ms is not None and seen.spread_ms < least_ms:
        wrong.append(f"jitter {shape.jitter_ms:g} ms asked, {_number(seen.spread_ms)} ms seen")
    rate = shape.rate_kbit_s
    if rate is not None and not (seen.rate_kbit_s is not None and seen.rate_kbit_s <= 1.2 * rate):
        wrong.append(f"{rate:g} kbit/s asked, {_number(seen.rate_kbit_s)} seen")
    return wrong


def left_effects(
    was: LinkShape, shape: LinkShape, back: LinkShape, seen: ShapeMeasure
) -> list[str]:
    """Say what a measure still shows of the shape that a link had before it got this one."""
    if seen.lost is None:
        return ["nothing could be measured"]
    left = []
    for part, measured in _SHARES:
        before, now, got = getattr(was, part), getattr(shape, part), getattr(seen, measured)
        if before > now and got is not None and got > (before + now) / 2 + _STRAY_LOSS:
            left.append(f"{part} of {got:.1%} is still seen")
    slow_ms = max(_STRAY_MS, (was.delay_ms - shape.delay_ms) / 2)
    limit_ms = shape.delay_ms + shape.jitter_ms + back.delay_ms + back.jitter_ms + slow_ms
    slower = was.delay_ms > shape.delay_ms or was.rate_kbit_s != shape.rate_kbit_s
    if slower and not shape.rate_kbit_s and (seen.round_trip_ms or 0.0) > limit_ms:
        left.append(f"a round trip of {_number(seen.round_trip_ms)} ms is still seen")
    return left


def _spread(share: float, probes: int) -> float:
    return float(_SIGMAS * (share * (1 - share) / max(1, probes)) ** 0.5)


def _median_spread(jitter_ms: float, probes: int) -> float:
    """How far below its centre the median of so many uniform draws may be, in ms.

    The variance of the median of n draws of a width of 2 is 1 / (n + 2) (David and Nagaraja, Order
    Statistics, 2.3: it is Beta distributed). What a draw hides so is shown by the spread, which is
    judged by itself.
    """
    return float(_SIGMAS * jitter_ms / (probes + 2) ** 0.5)


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.1f}"
