"""`at_once`: every coroutine has acted before any of them is waited for."""

import asyncio

import pytest

from nemeses.at_once import at_once, not_cancelled
from tests.play import play


async def acts(done: list[str], name: str, pause_s: float | None = None) -> str:
    done.append(name)
    if pause_s is not None:
        await asyncio.sleep(pause_s)
        done.append(f"{name} again")
    return name


def first_step(coroutine) -> bool:
    """Step a coroutine by hand, as from within an event; whether it ended."""
    try:
        coroutine.send(None)
    except StopIteration:
        return True
    return False


@play(asyncio.run)
async def test_all_have_acted_when_the_first_one_waits():
    done: list[str] = []
    whole = at_once(acts(done, name, 0.0) for name in "abc")
    assert not first_step(whole)
    assert done == ["a", "b", "c"]
    whole.close()


@play(asyncio.run)
async def test_coroutines_that_do_not_wait_end_without_a_suspension():
    done: list[str] = []
    assert first_step(at_once(acts(done, name) for name in "abc"))
    assert done == ["a", "b", "c"]


@play(asyncio.run)
async def test_results_come_in_order_whichever_ends_first():
    done: list[str] = []
    pauses = {"a": 0.02, "b": None, "c": 0.0}
    names = await at_once(acts(done, name, pause) for name, pause in pauses.items())
    assert names == ["a", "b", "c"]
    assert done == ["a", "b", "c", "c again", "a again"]


@play(asyncio.run)
async def test_an_error_of_a_first_step_is_raised():
    async def fails() -> str:
        raise ValueError("no")

    for pause in (None, 0.0):
        with pytest.raises(ValueError, match="no"):
            await at_once([acts([], "a", pause), fails()])


@play(asyncio.run)
async def test_a_time_out_entered_in_the_first_step_ends_its_own_coroutine_alone():
    async def bounded() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            return "timed out"
        return "ended"

    assert await at_once([bounded(), acts([], "a", 0.05)]) == ["timed out", "a"]


@play(asyncio.run)
async def test_a_cancellation_reaches_all():
    async def noted(ended: list[str], name: str) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(name)

    for settle_s in (None, 0.01):
        ended: list[str] = []
        task = asyncio.ensure_future(at_once(noted(ended, name) for name in "ab"))
        await asyncio.sleep(0)
        if settle_s is not None:
            await asyncio.sleep(settle_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(ended) == ["a", "b"]


def test_work_that_is_left_behind_can_be_closed():
    async def forever() -> None:
        await asyncio.Event().wait()

    async def leave():
        work = not_cancelled(forever())
        work.send(None)
        return work

    asyncio.run(leave()).close()
