import asyncio

from cluster.node.runtime.clock import LoopClock
from tests.play import play


@play(asyncio.run)
async def test_callbacks_come_in_the_order_of_their_delays_and_never_within_the_call():
    loop = asyncio.get_running_loop()
    clock, called, now_s = LoopClock(loop), [], loop.time()
    done = asyncio.Event()
    loop.time = lambda: now_s  # a machine that stops between two calls moves no due time
    for delay_ms in (20, 0, 10):
        clock.call_later(delay_ms, lambda d=delay_ms: called.append(d))
    clock.call_later(20, done.set)
    del loop.time
    assert called == []
    await done.wait()
    assert called == [0, 10, 20]


@play(asyncio.run)
async def test_a_cancelled_timer_stays_silent():
    clock = LoopClock(asyncio.get_running_loop())
    called = []
    timer = clock.call_later(1, lambda: called.append(1))
    timer.cancel()
    await asyncio.sleep(0.02)
    timer.cancel()
    assert called == []


@play(asyncio.run)
async def test_monotonic_time_is_the_loops_in_milliseconds():
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    before, now, after = loop.time(), clock.monotonic_ms(), loop.time()
    assert before * 1000 <= now <= after * 1000
