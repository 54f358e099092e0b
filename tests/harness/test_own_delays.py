"""What the harness journals of itself."""

import asyncio

from harness.run import harness_delays
from harness.run.harness_delays import OwnDelays
from harness.run.recorder import Recorder
from tests.harness.world import Journal


def values(journal):
    return [event.value for event in journal.events]


def test_a_step_of_the_wall_clock_is_journaled_once_and_a_slew_or_a_pause_is_none():
    journal = Journal()
    # Three readings a look: monotonic, wall, monotonic.
    readings = [
        (0, 100, 9),
        *[(9, 109, 9)] * 4,
        (10, 110.01, 10),
        (11, 115, 15),
        (20, 3720, 20),
        (21, 3721, 21),
    ]
    times = iter([value for reading in readings for value in reading])
    delays = OwnDelays(Recorder(journal, lambda: 0.0), lambda: next(times), lambda: next(times))
    for _ in readings[5:]:
        delays.look()
    assert values(journal) == [{"clock_step_s": 3599.99}]


def test_a_late_loop_is_measured(monkeypatch):
    monkeypatch.setattr(harness_delays, "_EVERY_S", 0.0)
    journal, now = Journal(), [0.0]
    delays = OwnDelays(Recorder(journal, lambda: 0.0), lambda: now[0], lambda: now[0])

    async def work():
        watch = asyncio.ensure_future(delays.watch())
        await asyncio.sleep(0)
        now[0] += 2.5
        for _ in range(10):
            await asyncio.sleep(0)
        watch.cancel()

    asyncio.run(work())
    delays.end()
    (value,) = values(journal)
    assert value["late_ms"] == 2500
    assert value.keys() == {"late_ms", "load", "processors"}
