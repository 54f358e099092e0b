"""Waiting in tests for conditions that change outside the event loop."""

import asyncio
from collections.abc import Callable
from typing import Any

TIMEOUT_S = 600.0


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until the condition holds. Raises TimeoutError."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110  (no code of ours could set an Event)
            await asyncio.sleep(0.002)


async def works(backend: Any, link: tuple[str, str]) -> bool:
    """Say whether a link works as soon as it does; a busy machine is given its time."""
    return (await backend.measure_link(link, TIMEOUT_S)).works
