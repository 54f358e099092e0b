"""The folders of a node in the real world, opened and identified.

The folder of the metadata must be usable. Any other that cannot be opened or read is left out, as
Kafka does (LogManager.createAndValidateLogDirs): its replicas are offline, and the node says so.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from cluster.node.config import NodeConfig
from cluster.node.config_values import BROKER_ROLE
from cluster.node.log.data.log_manager import LogDir, LogDirs
from cluster.node.log.storage.segment import METADATA_DIRECTORY
from cluster.node.meta_properties import Identity, MetaPropertiesError, identify
from cluster.node.ports import Random
from cluster.node.runtime.disk import DiskLockedError, FileDisk
from cluster.values import valueclass


class FolderError(Exception):
    """A folder cannot be used, and the node not start. One line, with its path."""


@valueclass
class Folders:
    """What a node has on its disks."""

    directory_id: uuid.UUID
    """Of the folder of the metadata."""
    log_dirs: LogDirs
    others: tuple[FileDisk, ...]
    """Those of `log_dirs` beside the metadata's."""
    complaints: tuple[str, ...]
    """Why each folder that is left out is, a line each."""


def open_metadata(config: NodeConfig) -> FileDisk:
    """Open the folder of the metadata. Raises FolderError."""
    folder = config.metadata_log_dir
    try:
        return FileDisk(folder, asyncio.get_running_loop())
    except DiskLockedError as error:
        raise FolderError(f"metadata.log.dir: {error}") from error
    except OSError as error:
        raise FolderError(f"metadata.log.dir: {folder}: {error.strerror}") from error


async def open_folders(config: NodeConfig, metadata: FileDisk, random: Random) -> Folders:
    """Open and identify a broker's folders, or the metadata's alone. Raises FolderError."""
    own = _path(config.metadata_log_dir)
    is_broker = BROKER_ROLE in config.process_roles
    wanted = [_path(each) for each in config.log_dirs] if is_broker else []
    disks: dict[str, FileDisk] = {own: metadata}
    complaints: dict[str, str] = {}
    for path in wanted:
        if path != own:
            try:
                disks[path] = _open(path, own)
            except OSError as error:
                complaints[path] = error.strerror or str(error)
    found = await _identities(config, disks, own, random)
    directory_id = found[own]
    if not isinstance(directory_id, uuid.UUID):
        raise FolderError(f"{own}: {_reason(directory_id)}")
    complaints |= {
        path: _reason(identity)
        for path, identity in found.items()
        if not isinstance(identity, uuid.UUID)
    }
    if wanted and len(complaints) == len(wanted):
        raise FolderError(f"log.dirs: none can be used: {wanted[0]}: {complaints[wanted[0]]}")
    return Folders(
        directory_id,
        LogDirs(
            tuple(
                LogDir(path, identity, disks[path])
                for path in wanted
                if isinstance(identity := found.get(path), uuid.UUID)
            ),
            tuple(path for path in wanted if path in complaints),
        ),
        tuple(disk for path, disk in disks.items() if path != own),
        tuple(
            f"log directory {path} is offline, the broker goes on without it: {reason}"
            for path, reason in complaints.items()
        ),
    )


def _open(path: str, metadata: str) -> FileDisk:
    try:
        disk = FileDisk(path, asyncio.get_running_loop())
    except DiskLockedError as error:
        raise FolderError(f"log.dirs: {error}") from error
    if disk.exists(METADATA_DIRECTORY):
        found = f"{path} holds a metadata log, {METADATA_DIRECTORY}"
        raise FolderError(f"log.dirs: {found}, which belongs into metadata.log.dir {metadata}")
    return disk


async def _identities(
    config: NodeConfig, disks: dict[str, FileDisk], own: str, random: Random
) -> dict[str, Identity]:
    found: asyncio.Future[dict[str, Identity]] = asyncio.get_running_loop().create_future()
    try:
        identify(disks, config.cluster_id, config.node_id, random, found.set_result)
    except MetaPropertiesError as error:
        raise FolderError(f"{error.folder or own}: {error}") from error
    except OSError as error:
        raise FolderError(f"{own}: {error.strerror}") from error
    return await found


def _reason(identity: Identity) -> str:
    if isinstance(identity, OSError):
        return identity.strerror or str(identity)
    return str(identity)


def _path(folder: Path) -> str:
    return str(folder.absolute())
