"""`kafka`: releases of Apache Kafka, to be put under test."""

from __future__ import annotations

import click
from rich.console import Console

from cluster.systems.kafka import fetch as kafka_fetch
from harness.commands.options import Group, shown_options
from harness.terminal.answers import Shown, answer
from harness.terminal.progress import Steps


@click.group(cls=Group)
def kafka() -> None:
    """Fetch releases of Apache Kafka, to be put under test."""


@kafka.command()
@click.argument("version", metavar="VERSION")
@click.option(
    "--repository",
    metavar="URL",
    help="Address of a Maven repository.  [default: the public one]",
)
@shown_options(json="Print the version and its folder.", quiet="Print the folder alone.")
def fetch(version: str, repository: str | None, shown: Shown) -> int:
    """Fetch a release into the cache, about 55 MB, and print where it is.

    What has arrived is not fetched again: an interrupted fetch goes on where it was.
    """
    steps = Steps(Console(stderr=True, quiet=shown is not Shown.LINES))
    with steps.show(at_once=True):
        home = str(kafka_fetch.fetch(version, repository, steps.step))
    answer(shown, {"version": version, "home": home}, [home], [home])
    return 0
