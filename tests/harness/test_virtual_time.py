import asyncio

import pytest

from cluster.backends.sim.loop import Stalled, run


def test_a_day_passes_without_waiting():
    async def main():
        await asyncio.sleep(86_400 * 3)
        return asyncio.get_running_loop().time()

    assert run(main()) == pytest.approx(86_400 * 3)


def test_timers_run_in_the_order_of_their_times():
    async def main():
        seen = []

        async def note(at_s, name):
            await asyncio.sleep(at_s)
            seen.append((name, asyncio.get_running_loop().time()))

        await asyncio.gather(note(3, "c"), note(1, "a"), note(2, "b"))
        return seen

    assert run(main()) == [("a", 1.0), ("b", 2.0), ("c", 3.0)]


def test_a_loop_with_nothing_left_to_happen_says_so():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stalled, match="nothing can happen any more"):
        run(main())


def test_timeouts_work_in_virtual_time():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.sleep(11)
        return asyncio.get_running_loop().time()

    assert run(main()) == 10.0
