"""`image`: the toolkit itself as an image."""

from __future__ import annotations

import asyncio
from contextlib import closing

import click
import docker

from cluster.backends.base import BackendError
from cluster.backends.docker.engine import BUILD_TIMEOUT_S, EngineErrors, connect, reason
from cluster.backends.docker.image import ensure_image
from harness.commands.options import Command, shown_options
from harness.commands.toolkit_image import ensure_toolkit_image
from harness.terminal.answers import Shown, answer


@click.command(cls=Command)
@click.option("--tag", metavar="NAME", help="Also give it this name.")
@shown_options(json="Print the image's name.", quiet="Print the name alone.")
def image(tag: str | None, shown: Shown) -> int:
    """Build an image that holds Kraftprobe, and print its name.

    For jobs whose machine has a docker engine and no Python. It is built once for each state of the
    code; nothing is pushed.
    """
    say = _say if shown is Shown.LINES else _unsaid
    with closing(connect()) as client:
        client.api.timeout = BUILD_TIMEOUT_S
        host = asyncio.run(ensure_image(client, say))
        name = ensure_toolkit_image(client, host, say)
        if tag is not None:
            _also_named(client, name, tag)
    name = tag or name
    answer(shown, {"image": name}, [name], [name])
    return 0


def _also_named(client: docker.DockerClient, name: str, tag: str) -> None:
    try:
        client.images.get(name).tag(tag)
    except EngineErrors as error:
        raise BackendError(f"--tag {tag}: the engine refuses it: {reason(error)}") from error


def _say(line: str) -> None:
    click.echo(f"kraftprobe: {line}", err=True)


def _unsaid(_: str) -> None:
    """Say nothing."""
