"""Clients and faults that block the event loop are ended, by an error in their own code."""

import asyncio
import signal
import time
import traceback

import pytest

from harness import blocked_loop
from harness.blocked_loop import BlockedError, unblocked


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(blocked_loop, "BLOCKED_S", 0.3)
    monkeypatch.setattr(blocked_loop, "GRACE_S", 0.1)
    monkeypatch.setattr(blocked_loop, "_BEAT_S", 0.01)


def sleep_for_ever():
    time.sleep(10**6)


def loop_for_ever():
    while True:
        pass


async def _call(block):
    async with unblocked():
        await asyncio.sleep(0.05)
        block()


@pytest.mark.parametrize("block", [sleep_for_ever, loop_for_ever])
def test_what_blocks_the_loop_is_ended_in_its_own_code(block):
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(BlockedError) as caught:
        asyncio.run(_call(block))
    assert block.__name__ in {row.name for row in traceback.extract_tb(caught.tb)}
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_loop_that_turns_is_left_alone(monkeypatch):
    monkeypatch.setattr(blocked_loop, "BLOCKED_S", 20.0)
    asyncio.run(_call(lambda: time.sleep(0.2)))


def test_a_process_that_was_stopped_is_not_taken_for_a_blocked_loop(monkeypatch):
    monkeypatch.setattr(blocked_loop, "GRACE_S", 20.0)
    asyncio.run(_call(lambda: time.sleep(0.5)))  # the timer ran out, as after a SIGCONT
