"""`kafka`: releases of Apache Kafka, to be put under test."""

from __future__ import annotations

import click

from cluster.systems.kafka import fetch as kafka_fetch
from harness.commands.options import Group, shown_options
from harness.terminal.answers import Shown, answer
from harness.terminal.progress import Steps, console_of


@click.group(cls=Group)
def kafka() -> None:
    """Fetch releases of Apache Kafka, to be put under test."""


@kafka.command()
@click.argument("version", metavar="VERSION")
@click.option(
    "--repository",
    metavar="URL",
    help="Address of another Maven repository: what it has is another release.",
)
@shown_options(json="Print the version and its folder.", quiet="Print the folder alone.")
def fetch(version: str, repository: str | None, shown: Shown) -> int:
    """Fetch a release into the cache, about 45 MB, and print where it is.

    What has arrived is not fetched again: an interrupted fetch goes on where it was. What another
    repository has, such as that of a release candidate, gets a name of its own, VERSION@DIGEST.
    """
    steps = Steps(console_of(shown))
    with steps.show(at_once=True):
        home = kafka_fetch.fetch(version, repository, steps.step)
    lines = [str(home)]
    if home.name.startswith(f"{version}@"):
        version = home.name
        lines.append(f"to run it: --kafka-version {version}")
    answer(shown, {"version": version, "home": str(home)}, lines, [str(home)])
    return 0
