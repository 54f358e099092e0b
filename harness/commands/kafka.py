"""`kafka`: releases of Apache Kafka, to be put under test."""

from __future__ import annotations

import click

from cluster.systems.kafka import fetch as kafka_fetch
from harness.steps import Steps


@click.group()
def kafka() -> None:
    """Fetch releases of Apache Kafka, to be put under test."""


@kafka.command()
@click.argument("version", metavar="VERSION")
@click.option(
    "--repository",
    metavar="URL",
    help="Address of a Maven repository.  [default: the public one]",
)
def fetch(version: str, repository: str | None) -> None:
    """Fetch a release into the cache, about 55 MB, and print where it is.

    What has arrived is not fetched again: an interrupted fetch goes on where it was.
    """
    steps = Steps()
    with steps.shown(at_once=True):
        home = kafka_fetch.fetch(version, repository, steps.step)
    click.echo(home)
