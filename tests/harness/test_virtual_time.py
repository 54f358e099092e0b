import asyncio
import contextlib
import os
import signal
import weakref
from types import SimpleNamespace

import pytest

from cluster.backends.sim import loop
from cluster.backends.sim.loop import Stalled, run
from cluster.backends.sim.scheduler import Scheduler
from harness.plan.document import from_document
from harness.run.plan_backend import place_of


def test_timers_run_in_the_order_of_their_times_and_days_pass_without_waiting():
    async def main():
        seen = []

        async def note(at_s, name):
            await asyncio.sleep(at_s)
            seen.append((name, asyncio.get_running_loop().time()))

        await asyncio.gather(note(86_400.0, "c"), note(1, "a"), note(2, "b"))
        return seen

    assert run(main()) == [("a", 1.0), ("b", 2.0), ("c", 86_400.0)]


def test_a_loop_with_nothing_left_to_happen_says_so():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stalled, match="nothing can happen"):
        run(main())


def test_timeouts_work_in_virtual_time():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.sleep(11)
        return asyncio.get_running_loop().time()

    assert run(main()) == 10.0


def test_an_interrupt_in_a_task_leaves_the_run_and_the_other_tasks_end():
    ended = []

    async def waiter():
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(1)
            ended.append("waiter")

    async def main():
        waiting = asyncio.create_task(waiter())
        await asyncio.sleep(1)
        raise KeyboardInterrupt if not waiting.done() else AssertionError

    with pytest.raises(KeyboardInterrupt):
        run(main())
    assert ended == ["waiter"]


def test_an_interrupt_in_a_callback_beside_the_end_of_the_run_leaves_it():
    """The callback that ends the run is in the queue when the interrupt strikes."""

    def interrupted():
        raise KeyboardInterrupt

    async def main():
        asyncio.create_task(asyncio.sleep(10))  # noqa: RUF006  (left behind, which is the point)
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, interrupted)

    with pytest.raises(KeyboardInterrupt):
        run(main())


def test_an_error_of_the_teardown_hides_no_interrupt():
    async def stubborn():
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.get_running_loop().create_future()

    async def main():
        stuck = asyncio.create_task(stubborn())
        await asyncio.sleep(1)
        raise KeyboardInterrupt if not stuck.done() else AssertionError

    with pytest.raises(KeyboardInterrupt):
        run(main())


def test_a_signal_is_not_lost_on_a_run_that_swallows_cancellation():
    async def main():
        os.kill(os.getpid(), signal.SIGINT)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
        return "went on"

    with pytest.raises(KeyboardInterrupt):
        run(main())


@pytest.mark.parametrize("place", ["weak reference", "task", "last callback"])
def test_a_signal_is_not_lost_wherever_it_strikes(place):
    """Python drops an error in a weak reference's callback; nothing awaits this task."""

    def strike(_=None):
        os.kill(os.getpid(), signal.SIGINT)
        return "a bytecode boundary, at which the handler runs"

    async def stray():
        strike()
        await asyncio.sleep(0)

    async def main():
        if place == "weak reference":
            thing = set()
            reference = weakref.ref(thing, strike)
            del thing
            assert reference() is None
        elif place == "task":
            asyncio.create_task(stray())  # noqa: RUF006  (left behind, which is the point)
        else:
            strike()
            return
        await asyncio.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        run(main())


def test_the_handlers_of_signals_are_as_before_after_a_run():
    before = signal.getsignal(signal.SIGINT)

    async def main():
        assert signal.getsignal(signal.SIGINT) is not before

    run(main())
    assert signal.getsignal(signal.SIGINT) is before


def test_the_world_of_a_plan_is_that_of_its_run(tmp_path):
    world = {"power_loss": "written", "latency_ms": [1.0, 2.0]}
    plan = from_document({"backend": "sim", "seed": 1, "world": world})
    with place_of(plan, None, tmp_path, print) as place:
        assert place.backend.world.settings == plan.world
    assert plan.world.power_loss == "written"


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(loop, "LOOK_S", 0.01)


def test_a_pause_of_the_machine_that_is_charged_to_an_event_does_not_end_it():
    """Seed 87000004, once in two runs: the timer struck twice within one event."""
    scheduler, errors, ends = Scheduler(), [], []

    def strike():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGVTALRM)
        ends.append(True)

    owner = SimpleNamespace(runs=True, alive=True, backlog=[], die=errors.append)
    scheduler.post(1.0, strike, owner)
    run(asyncio.sleep(10), scheduler)
    assert (errors, ends) == ([], [True])


@pytest.mark.usefixtures("hurried")
def test_an_interrupt_leaves_an_event_that_does_not_end():
    """The process swallows each error and goes on."""
    scheduler = Scheduler()

    def spin():
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    owner = SimpleNamespace(runs=True, alive=True, backlog=[], die=None)
    scheduler.post(1.0, spin, owner)
    with pytest.raises(KeyboardInterrupt):
        run(asyncio.sleep(10), scheduler)


@pytest.mark.slow
@pytest.mark.usefixtures("hurried")
def test_what_the_harness_computes_between_events_is_not_bounded():
    async def main():
        began = os.times().user
        while os.times().user < began + 0.5:
            sum(range(1000))
        return "computed"

    assert run(main()) == "computed"
