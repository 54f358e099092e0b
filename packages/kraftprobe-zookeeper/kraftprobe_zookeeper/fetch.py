"""`kraftprobe-zookeeper fetch VERSION`: bring a release of Apache ZooKeeper."""

import re
from pathlib import Path

import click

from cluster.systems.kafka.fetch import FetchError, fetch_jars
from cluster.systems.kafka.installation import cache_folder
from cluster.systems.kinds import SettingError

# The next two are `provided` in ZooKeeper's own description, and no server starts without them; the
# last lets it log.
ARTEFACTS = (
    ("org.apache.zookeeper", "zookeeper", ""),
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    ("org.slf4j", "slf4j-simple", "2.0.13"),
)
VERSION = re.compile(r"\d+\.\d+\.\d+")


def home(version):
    """Return where a release is, or is to be."""
    if not VERSION.fullmatch(version):
        raise SettingError(f"version {version!r}: no release of Apache ZooKeeper, such as 3.9.4")
    return cache_folder().with_name("zookeeper") / version


@click.group()
def main():
    """Bring releases of Apache ZooKeeper, to be put under test."""


@main.command()
@click.argument("version")
def fetch(version):
    """Fetch a release, about 7 MB, check its digests, and print where it is."""
    artefacts = tuple((where, name, own or version) for where, name, own in ARTEFACTS)
    listing = Path(__file__).parent / "digests" / f"{version}.txt"
    try:
        folder = home(version)
        fetch_jars(f"Apache ZooKeeper {version}", folder, artefacts, listing, lambda _: None)
    except (FetchError, SettingError) as error:
        raise click.UsageError(str(error)) from error
    click.echo(folder)
