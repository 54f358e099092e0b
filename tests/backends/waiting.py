"""Waiting in tests for what comes from outside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

TIMEOUT_S = 5.0


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until the condition holds. Raises TimeoutError."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110  (nobody could set an Event for us)
            await asyncio.sleep(0.002)
