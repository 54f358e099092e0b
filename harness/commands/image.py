"""`image`: the toolkit itself as an image."""

from __future__ import annotations

import asyncio
from contextlib import closing

import click
import docker

from cluster.backends.base import BackendError
from cluster.backends.docker.engine import BUILD_TIMEOUT_S, EngineErrors, connect, reason
from cluster.backends.docker.image import ensure_image
from harness.toolkit_image import ensure_toolkit_image


@click.command()
@click.option("--tag", metavar="NAME", help="Also give it this name.")
def image(tag: str | None) -> int:
    """Build an image that holds Kraftprobe, and print its name.

    For jobs whose machine has a docker engine and no Python. It is built once for each state of the
    code; nothing is pushed.
    """
    with closing(connect()) as client:
        client.api.timeout = BUILD_TIMEOUT_S
        host = asyncio.run(ensure_image(client, _say))
        name = ensure_toolkit_image(client, host, _say)
        if tag is not None:
            _also_named(client, name, tag)
    click.echo(tag or name)
    return 0


def _also_named(client: docker.DockerClient, name: str, tag: str) -> None:
    try:
        client.images.get(name).tag(tag)
    except EngineErrors as error:
        raise BackendError(f"--tag {tag}: the engine refuses it: {reason(error)}") from error


def _say(line: str) -> None:
    click.echo(f"kraftprobe: {line}", err=True)
