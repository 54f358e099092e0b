"""`python -m cluster.node.format --config FILE ...`: prepare a folder as kafka-storage does.

Only a quorum with its voters in the log from the start (KIP-853) needs it, and a configuration that
does not say the cluster's id, as Kafka's do not; else a node formats its folder by itself. Exit
codes: 0 formatted, 2 it cannot be, with one line on stderr.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cluster.node.config import ConfigError, NodeConfig, load_config
from cluster.node.controller.core.feature_control import bootstrap_metadata
from cluster.node.controller.metadata.feature_levels import RELEASES
from cluster.node.controller.metadata.image_writer import FILE_NAME as BOOTSTRAP_FILE
from cluster.node.controller.metadata.image_writer import bootstrap_content
from cluster.node.controller.metadata.scram_users import user_record
from cluster.node.kraft.messages import ReplicaKey
from cluster.node.kraft.quorum.control_state import Voter, VoterSet
from cluster.node.kraft.quorum.quorum_state_store import is_leftover, write_bootstrap
from cluster.node.log.batch.control import VoterListener
from cluster.node.log.storage.segment import METADATA_DIRECTORY
from cluster.node.meta_properties import (
    FILE_NAME,
    MetaPropertiesError,
    check_is_empty,
    random_uuid,
    write_identity,
)
from cluster.node.ports import Disk, Endpoint
from cluster.node.runtime.disk import DiskLockedError, FileDisk
from cluster.node.runtime.server import with_own_host
from cluster.node.wire.uuid_text import uuid_from_text, uuid_to_text


class FormatError(Exception):
    """The folder cannot be formatted so; one line."""


def parse_controllers(text: str, listener_name: str) -> VoterSet:
    """Read `id@host:port:directory,...`, as kafka-storage takes it. Raises FormatError."""
    voters = []
    for item in text.split(","):
        node_id, _, rest = item.strip().partition("@")
        address, _, directory = rest.rpartition(":")
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        try:
            key = ReplicaKey(int(node_id), uuid_from_text(directory))
            endpoint = Endpoint(key.id, host, int(port))
        except ValueError:
            raise FormatError(f"expected id@host:port:directory, not {item!r}") from None
        if not host or not 0 < endpoint.port < 65536 or key.id < 0:
            raise FormatError(f"expected id@host:port:directory, not {item!r}")
        listeners = (VoterListener(listener_name, host, endpoint.port),)
        voters.append(Voter(key, endpoint, listeners=listeners))
    try:
        return VoterSet(voters)
    except ValueError as error:
        raise FormatError(f"--initial-controllers: {error}") from None


def initial_voters(config: NodeConfig, controllers: str | None, own: uuid.UUID) -> VoterSet:
    """The voters to begin with: those that are listed, or this node alone. Raises FormatError."""
    name = config.controller_listener_names[0]
    if controllers is not None:
        return parse_controllers(controllers, name)
    endpoint = config.advertised_endpoint(controller=True)
    if endpoint is None:
        raise FormatError("a node without the role controller cannot be the first voter")
    listener = VoterListener(name, endpoint.host, endpoint.port)
    return VoterSet([Voter(ReplicaKey(config.node_id, own), endpoint, listeners=(listener,))])


def write_folder(
    disk: Disk,
    config: NodeConfig,
    own: uuid.UUID,
    voters: VoterSet | None,
    now_ms: int,
    done: Callable[[uuid.UUID | OSError], None],
    bootstrap: bytes | None = None,
) -> None:
    """Write a folder's identity, and before it the first voters and metadata if it has any.

    In this order, as in Kafka's Formatter: a folder is formatted from its meta.properties on, and
    whatever an interruption leaves before that is written anew by the next attempt. Raises
    MetaPropertiesError, within this call.
    """
    leftover = voters is not None and is_leftover(disk, METADATA_DIRECTORY)
    ours = frozenset() if bootstrap is None else frozenset({BOOTSTRAP_FILE})
    check_is_empty(disk, ours | {METADATA_DIRECTORY} if leftover else ours)

    def identify(error: OSError | None) -> None:
        if error is not None:
            done(error)
        else:
            write_identity(disk, config.cluster_id, config.node_id, own, done)

    def begin(error: OSError | None) -> None:
        if error is not None or voters is None:
            identify(error)
        else:
            write_bootstrap(disk, METADATA_DIRECTORY, voters, now_ms, identify)

    if bootstrap is None:
        begin(None)
    else:
        disk.write(BOOTSTRAP_FILE, bootstrap)
        disk.sync(BOOTSTRAP_FILE, begin)


def _metadata(release: str | None, users: Sequence[str], now_ms: int) -> bytes | None:
    """Return what a cluster of a release begins with, its users included. Raises FormatError."""
    if release is None and not users:
        return None
    if release is not None and release not in RELEASES:
        raise FormatError(f"--release-version: {release!r} is not one of {', '.join(RELEASES)}")
    features = bootstrap_metadata() if release is None else bootstrap_metadata(RELEASES[release])
    try:
        records = {(each.name, each.mechanism): each for each in map(user_record, users)}
    except ValueError as error:
        raise FormatError(f"--add-scram: {error}") from None
    if len(records) < len(users):
        raise FormatError("--add-scram: a user is given twice for one mechanism")
    return bootstrap_content((*features, *records.values()), now_ms)


def _with_cluster_id(config: NodeConfig, cluster_id: str | None) -> NodeConfig:
    """Return the configuration of that cluster. Raises FormatError."""
    if cluster_id is None and not config.cluster_id:
        raise FormatError("cluster.id is not given; give --cluster-id, the same for all nodes")
    if cluster_id is not None and config.cluster_id not in {"", cluster_id}:
        raise FormatError(f"--cluster-id: {cluster_id!r}, but cluster.id is {config.cluster_id!r}")
    return replace(config, cluster_id=cluster_id or config.cluster_id)


def _check_options(config: NodeConfig, given: int) -> None:
    """Have one option say how the node begins, but for static voters. Raises FormatError."""
    if given > 1 or (given == 0 and not config.controller_quorum_voters):
        options = "--standalone, --initial-controllers, --no-initial-controllers"
        raise FormatError(f"give one of {options}")


async def format_folder(
    config: NodeConfig,
    *,
    standalone: bool,
    controllers: str | None,
    release: str | None,
    users: Sequence[str] = (),
) -> str:
    """Format `metadata.log.dir`; returns the directory id. Raises FormatError."""
    loop = asyncio.get_running_loop()
    own: uuid.UUID = random_uuid(random.SystemRandom())
    now_ms = int(time.time() * 1000)
    metadata = _metadata(release, users, now_ms)
    voters = None
    if standalone or controllers is not None:
        if config.controller_quorum_voters:
            raise FormatError("controller.quorum.voters is set: static voters need no format")
        voters = initial_voters(config, controllers, own)
        key = voters.key(config.node_id)
        if key is None:
            raise FormatError(f"--initial-controllers: node.id {config.node_id} is not among them")
        own = key.directory_id
    try:
        disk = FileDisk(config.metadata_log_dir, loop)
    except (DiskLockedError, OSError) as error:
        raise FormatError(f"metadata.log.dir: {error}") from error
    try:
        if disk.exists(FILE_NAME):
            raise FormatError(f"{config.metadata_log_dir} is formatted already")
        found: asyncio.Future[Any] = loop.create_future()
        write_folder(disk, config, own, voters, now_ms, found.set_result, metadata)
        _raise(await found)
    except MetaPropertiesError as error:
        raise FormatError(f"{config.metadata_log_dir}: {error}") from error
    finally:
        disk.close()
    return uuid_to_text(own)


def _raise(result: object) -> None:
    if isinstance(result, OSError):
        raise FormatError(f"metadata.log.dir: {result.strerror}")


@click.command()
@click.option("--config", "config_file", required=True, type=click.Path(path_type=Path))
@click.option("-t", "--cluster-id", help="The cluster, where cluster.id is not in the file.")
@click.option("--standalone", is_flag=True, help="Begin a quorum with this node as its only voter.")
@click.option("--initial-controllers", "controllers", help="id@host:port:directory,...")
@click.option("--no-initial-controllers", "joins", is_flag=True, help="Join a quorum as observer.")
@click.option("--release-version", "release", help="4.0 to 4.3: the features to begin with.")
@click.option(
    "--add-scram", "users", multiple=True, help="SCRAM-SHA-256=[name=NAME,password=PASSWORD]"
)
def main(
    config_file: Path,
    cluster_id: str | None,
    standalone: bool,  # noqa: FBT001  (click passes it by name)
    controllers: str | None,
    joins: bool,  # noqa: FBT001  (likewise)
    release: str | None,
    users: tuple[str, ...],
) -> None:
    """Format the folder of one node."""
    try:
        config = with_own_host(_with_cluster_id(load_config(config_file), cluster_id))
        _check_options(config, sum((standalone, controllers is not None, joins)))
        directory = asyncio.run(
            format_folder(
                config, standalone=standalone, controllers=controllers, release=release, users=users
            )
        )
    except FormatError as error:
        click.echo(f"{config_file}: {error}", err=True)
        sys.exit(2)
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    click.echo(f"formatted {config.metadata_log_dir} with directory.id {directory}")


if __name__ == "__main__":
    main()
