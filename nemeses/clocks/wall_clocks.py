"""Faults of clocks: of wall clocks (jump, skew, drift, strobe), and of the rate of time-outs.

A quorum must not care: nothing in KRaft is decided by a wall clock. What is measured is what a
program with the surroundings of the node reads; no monotonic clock is touched, nor the host's.
Every time-out is measured with a monotonic clock, and no two of these run alike: safety must not
depend on any rate; liveness is expected back with the true one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from cluster.backends.abilities import ClockSetting
from nemeses.base import Injection, Parameters, View, clocks_of, timers_of
from nemeses.node_fault import NodeFault, Seen

TOLERANCE_MS = 50.0
"""By how much a measured clock may differ from what was asked."""
_READING_MS = 5.0
"""What a reading takes."""
MONOTONIC_MS = 20.0
"""What a monotonic clock may seem to have moved."""
_STROBE_READINGS = 12
_DRIFT_LEAST = 0.25
"""Share of the drift that must be measured: less may be what a reading takes."""

DAY_MS = 86_400_000.0


class ClockFault(NodeFault):
    """What the four have in common."""

    family = "clock"
    needs = "clocks"
    favourites: ClassVar[tuple[str, ...]] = ("leader", "random", "minority", "all")

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> None:
        await clocks_of(view).set(node, self.setting(chosen))

    def setting(self, chosen: Mapping[str, Any]) -> ClockSetting:
        """Say what the clock shows from now on."""
        raise NotImplementedError

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Measure that the clock is off by what was asked."""
        asked_ms = self.setting(injection.detail["chosen"][node]).offset_ms
        return await _reads(view, node, asked_ms, {"asked_ms": asked_ms})

    async def lapse(self, view: View, node: str, injection: Injection) -> str:
        """Measure it once more: what moves a clock is a process, which may have ended."""
        wrong = (await self.bites(view, node, injection)).wrong
        is_made = wrong and (await clocks_of(view).measure(node)).setting is not None
        return "" if is_made else wrong

    async def undo(self, view: View, node: str, injection: Injection) -> None:  # noqa: ARG002
        await clocks_of(view).set(node, ClockSetting())

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:  # noqa: ARG002
        return await _reads(view, node, 0.0, {})


class ClockJump(ClockFault):
    """The wall clock jumps by `jump_ms`, forwards or back, and back again at the heal.

    Parameters: targets (default random), jump_ms (default 60,000).
    """

    name = "clock-jump"
    numbers: ClassVar = {"jump_ms": (60_000, -366 * DAY_MS, 366 * DAY_MS)}
    idle: ClassVar = {"jump_ms": 0}
    variants = tuple({"jump_ms": ms} for ms in (-3_600_000, -2_000, 2_000, 60_000, 3_600_000))

    def setting(self, chosen: Mapping[str, Any]) -> ClockSetting:
        return ClockSetting(offset_ms=self.number(chosen, "jump_ms"))


class ClockSkew(ClockFault):
    """Each target's wall clock is off by an amount of its own, drawn from -max_ms to max_ms.

    Parameters: targets (default all), max_ms (default 10,000).
    """

    name = "clock-skew"
    numbers: ClassVar = {"max_ms": (10_000, 1, 366 * DAY_MS)}
    favourites = ("all", "minority", "leader")
    variants = tuple({"max_ms": ms} for ms in (500, 10_000, 600_000))

    async def choose_details(
        self, view: View, nodes: tuple[str, ...], parameters: Parameters
    ) -> dict[str, dict[str, Any]]:
        """Draw each node's offset."""
        most_ms = self.number(parameters, "max_ms")
        return {
            node: {"offset_ms": round(view.random.uniform(-most_ms, most_ms)) or 1}
            for node in nodes
        }

    def setting(self, chosen: Mapping[str, Any]) -> ClockSetting:
        return ClockSetting(offset_ms=float(chosen["offset_ms"]))


class ClockDrift(ClockFault):
    """The wall clock runs at `rate` times the true speed, and is right again after the heal.

    Parameters: targets (default random), rate (default 1.1).
    """

    name = "clock-drift"
    numbers: ClassVar = {"rate": (1.1, 0.01, 100)}
    idle: ClassVar = {"rate": 1}
    variants = tuple({"rate": rate} for rate in (0.5, 0.99, 1.01, 2.0))

    def setting(self, chosen: Mapping[str, Any]) -> ClockSetting:
        return ClockSetting(rate=self.number(chosen, "rate"))

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Measure the rate over two readings, far enough apart for it to show."""
        setting = self.setting(injection.detail["chosen"][node])
        rate = setting.rate
        loop = asyncio.get_running_loop()
        known = (await clocks_of(view).measure(node)).setting
        if known is not None:
            wrong = "" if known == setting else f"{node}: it does not drift"
            return Seen({"asked_rate": rate, "seen_rate": known.rate}, wrong)
        apart_s = min(2.0, max(0.4, 0.02 / max(abs(rate - 1.0), 0.01)))
        begun_s, first = loop.time(), await clocks_of(view).measure(node)
        await asyncio.sleep(apart_s)
        ended_s, second = loop.time(), await clocks_of(view).measure(node)
        gained_ms = second.wall_offset_ms - first.wall_offset_ms
        seen_rate = 1.0 + gained_ms / ((ended_s - begun_s) * 1000)
        detail = {"asked_rate": rate, "seen_rate": round(seen_rate, 4)}
        drifts = (seen_rate - 1.0) / (rate - 1.0) > _DRIFT_LEAST
        wrong = "" if drifts else "it does not drift"
        if abs(second.monotonic_offset_ms) > MONOTONIC_MS:
            wrong = "the monotonic clock moved as well"
        return Seen(detail, f"{node}: {wrong}: {detail}" if wrong else "")


class ClockStrobe(ClockFault):
    """The wall clock shows the true time and `offset_ms` more in turn, each for `period_ms`.

    Parameters: targets (default random), offset_ms (default 5,000), period_ms (default 200).
    """

    name = "clock-strobe"
    numbers: ClassVar = {
        "offset_ms": (5_000, -366 * DAY_MS, 366 * DAY_MS),
        "period_ms": (200, 20, 60_000),
    }
    idle: ClassVar = {"offset_ms": 0}
    variants = ({"offset_ms": 200, "period_ms": 50}, {"offset_ms": 60_000, "period_ms": 200})

    def setting(self, chosen: Mapping[str, Any]) -> ClockSetting:
        period_ms = self.number(chosen, "period_ms")
        return ClockSetting(self.number(chosen, "offset_ms"), period_ms=period_ms)

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Read again and again until both times were seen."""
        setting = self.setting(injection.detail["chosen"][node])
        known = (await clocks_of(view).measure(node)).setting
        if known is not None:
            return Seen({}, "" if known == setting else f"{node}: the clock does not strobe")
        readings: list[float] = []
        both = {False, True}
        for _ in range(_STROBE_READINGS):
            reading = await clocks_of(view).measure(node)
            readings.append(round(reading.wall_offset_ms, 1))
            if {abs(ms) > abs(setting.offset_ms) / 2 for ms in readings} == both:
                return Seen({"readings_ms": readings})
            await asyncio.sleep((setting.period_ms or 0) / 1000 * 0.6)
        return Seen({"readings_ms": readings}, f"{node}: the clock does not strobe: {readings}")


async def _reads(view: View, node: str, asked_ms: float, detail: Mapping[str, Any]) -> Seen:
    measure = await clocks_of(view).measure(node)
    seen_ms, monotonic_ms = measure.wall_offset_ms, measure.monotonic_offset_ms
    detail = {**detail, "seen_ms": round(seen_ms, 1), "monotonic_ms": round(monotonic_ms, 1)}
    wrong = ""
    tolerance_ms = TOLERANCE_MS
    if asked_ms:  # else a clock that shows the true time would seem to be off by a little
        tolerance_ms = min(TOLERANCE_MS, max(_READING_MS, abs(asked_ms) / 2))
    if abs(seen_ms - asked_ms) > tolerance_ms:
        wrong = f"{node}: the wall clock is off by {seen_ms:.0f} ms, not by {asked_ms:.0f}"
    elif abs(monotonic_ms) > MONOTONIC_MS:
        wrong = f"{node}: the monotonic clock moved by {monotonic_ms:.0f} ms"
    return Seen(detail, wrong)


class TimerRate(NodeFault):
    """The node's monotonic clock runs `rate` times as fast, and with it all its time-outs.

    Its wall clock goes with it. Parameters: targets (default random), rate (default 2, 0.05 to 20).
    """

    name = "timer-rate"
    needs = "timers"
    numbers: ClassVar = {"rate": (2.0, 0.05, 20)}
    variants = tuple({"rate": rate} for rate in (0.2, 0.5, 2.0, 5.0))

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> None:
        await timers_of(view).set(node, self.number(chosen, "rate"))

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        return await _measure(view, node, self.number(injection.detail["chosen"][node], "rate"))

    async def undo(self, view: View, node: str, injection: Injection) -> None:  # noqa: ARG002
        await timers_of(view).set(node, 1.0)

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:  # noqa: ARG002
        return await _measure(view, node, 1.0)


async def _measure(view: View, node: str, asked: float) -> Seen:
    rate = await timers_of(view).measure(node)
    wrong = "" if math.isclose(rate, asked) else f"{node}: timers run at {rate:g}, not {asked:g}"
    return Seen({"rate": round(rate, 6)}, wrong)
