"""A backend that is up for the length of a block."""

import contextlib


@contextlib.asynccontextmanager
async def running(backend):
    try:
        await backend.up()
        yield backend
    finally:
        await backend.down()
