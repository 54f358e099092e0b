"""Clients and faults that block the event loop are ended, by an error in their own code."""

import asyncio
import os
import signal
import threading
import time
import traceback

import pytest

from harness.signals import blocked_loop
from harness.signals.blocked_loop import BlockedError, raise_in_blocked_loop
from harness.signals.interrupt import run_interruptible


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(blocked_loop, "BLOCKED_S", 1.0)
    monkeypatch.setattr(blocked_loop, "GRACE_S", 0.5)
    monkeypatch.setattr(blocked_loop, "_BEAT_S", 0.01)


def sleep_for_ever():
    time.sleep(10**6)


def loop_for_ever():
    while True:
        pass


async def _call(block):
    async with raise_in_blocked_loop():
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


@pytest.mark.parametrize("block", [sleep_for_ever, loop_for_ever])
def test_a_signal_is_heard_though_the_loop_is_blocked(monkeypatch, block):
    monkeypatch.setattr(blocked_loop, "BLOCKED_S", 1000.0)
    monkeypatch.setattr(blocked_loop, "HURRY_S", 0.1)
    interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))

    async def work():
        async with raise_in_blocked_loop():
            await asyncio.sleep(0.05)
            interrupt.start()
            try:
                block()
            finally:
                ended.append(block)
                await asyncio.sleep(0)  # the signal is handled now that the loop turns

    ended, asked = [], []
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(work(), asked.append)
    assert (ended, asked) == ([block], [1])


def test_a_loop_that_turns_is_left_alone(monkeypatch):
    monkeypatch.setattr(blocked_loop, "BLOCKED_S", 300.0)
    asyncio.run(_call(lambda: time.sleep(0.2)))


def test_a_process_that_was_stopped_is_not_taken_for_a_blocked_loop(monkeypatch):
    monkeypatch.setattr(blocked_loop, "GRACE_S", 300.0)
    asyncio.run(_call(lambda: time.sleep(1.2)))  # the timer ran out, as after a SIGCONT
