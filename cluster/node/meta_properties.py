"""`meta.properties`: to which cluster and node a folder belongs, and the folder's own identity.

Written once, before anything else is in the folder but a bootstrap checkpoint, and never changed
(KIP-853 needs the directory id: a voter with a wiped disk must not pass for the one that voted).

A node with several folders (`log.dirs`) has one in each (`identify`, MetaPropertiesEnsemble.java).
The folder of the metadata decides: without it the node does not start, and it must be empty to be
formatted. Any other folder without the file is given one, whatever it holds: its replicas are what
the metadata assign to it, and promise nothing by themselves. One that cannot be read is offline
alone. A folder of another cluster or node, or with the directory id of another folder, is a mistake
of an operator that would mix replicas up, and refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from cluster.node.ports import Disk, Random
from cluster.node.wire.uuid_text import is_reserved, uuid_from_text, uuid_to_text

FILE_NAME: Final = "meta.properties"
_TEMPORARY: Final = "meta.properties.tmp"
_VERSION: Final = "1"


class MetaPropertiesError(Exception):
    """The folder is not this node's, or its identity cannot be read. One line."""

    def __init__(self, message: str, folder: str = "") -> None:
        """`folder`: its path, where it is another than that of the metadata."""
        super().__init__(message)
        self.folder = folder


class UnreadableIdentityError(MetaPropertiesError):
    """The file is there, and no directory id can be read from it."""


Identity = uuid.UUID | OSError | UnreadableIdentityError
"""Of a folder: its directory id, or why it has none."""


def identify(
    disks: Mapping[str, Disk],
    cluster_id: str,
    node_id: int,
    random: Random,
    done: Callable[[dict[str, Identity]], None],
) -> None:
    """Find out which directory each folder is, then call `done`. MetaPropertiesError, OSError."""
    metadata = next(iter(disks))
    missing = [path for path, disk in disks.items() if not disk.exists(FILE_NAME)]
    if metadata in missing:
        check_is_empty(disks[metadata])
    found = {
        path: _identity(path, disk, cluster_id, node_id, is_metadata=path == metadata)
        for path, disk in disks.items()
        if path not in missing
    }
    _check_distinct(found)

    def on_identity(path: str, result: uuid.UUID | OSError) -> None:
        found[path] = result
        if len(found) == len(disks):
            done({path: found[path] for path in disks})

    for path in missing:
        own = random_uuid(random)
        write_identity(disks[path], cluster_id, node_id, own, partial(on_identity, path))
    if not missing:
        done(found)


def _identity(
    path: str, disk: Disk, cluster_id: str, node_id: int, *, is_metadata: bool
) -> Identity:
    try:
        return _parse(disk.read(FILE_NAME), cluster_id, node_id)
    except (OSError, UnreadableIdentityError) as error:
        if is_metadata:
            raise
        return error
    except MetaPropertiesError as error:
        raise MetaPropertiesError(str(error), path) from None


def _check_distinct(found: Mapping[str, Identity]) -> None:
    seen: dict[Identity, str] = {}
    for path, identity in found.items():
        if isinstance(identity, uuid.UUID) and identity in seen:
            text = uuid_to_text(identity)
            message = f"{FILE_NAME}: directory.id {text} is that of {seen[identity]}, too"
            raise MetaPropertiesError(message, path)
        seen[identity] = path


def write_identity(
    disk: Disk,
    cluster_id: str,
    node_id: int,
    directory_id: uuid.UUID,
    done: Callable[[uuid.UUID | OSError], None],
) -> None:
    """Write a folder's identity; `done` once it is durable, or the disk failed."""
    content = (
        f"version={_VERSION}\n"
        f"cluster.id={cluster_id}\n"
        f"node.id={node_id}\n"
        f"directory.id={uuid_to_text(directory_id)}\n"
    )

    def on_rename(error: OSError | None) -> None:
        done(directory_id if error is None else error)

    def on_write(error: OSError | None) -> None:
        if error is not None:
            done(error)
            return
        disk.rename(_TEMPORARY, FILE_NAME)
        disk.sync_directory("", on_rename)

    disk.write(_TEMPORARY, content.encode())
    disk.sync(_TEMPORARY, on_write)


def formatted_cluster_id(disk: Disk) -> str | None:
    """Return the cluster that a folder was formatted for, None when it was not or does not say."""
    if not disk.exists(FILE_NAME):
        return None
    return _properties(disk.read(FILE_NAME)).get("cluster.id")


def directory_id_of(data: bytes) -> uuid.UUID:
    """Read the directory id from the file's bytes. Raises UnreadableIdentityError."""
    try:
        return uuid_from_text(_properties(data)["directory.id"])
    except (ValueError, KeyError) as error:
        raise UnreadableIdentityError(f"{FILE_NAME} has no readable directory.id") from error


def check_is_empty(disk: Disk, besides: frozenset[str] = frozenset()) -> None:
    """Refuse a folder without identity that holds anything. Raises MetaPropertiesError."""
    names = [n for n in disk.list_directory("") if n not in {_TEMPORARY, ".lock", *besides}]
    if names:
        raise MetaPropertiesError(
            f"{FILE_NAME} is missing but the folder is not empty: it holds {names[0]}"
        )


def random_uuid(random: Random) -> uuid.UUID:
    """Return a version 4 uuid without a leading dash in its text, as `Uuid.randomUuid` does."""
    while True:
        value = uuid.UUID(int=random.getrandbits(128), version=4)
        if not uuid_to_text(value).startswith("-"):
            return value


def _properties(data: bytes) -> dict[str, str]:
    properties: dict[str, str] = {}
    for line in data.decode(errors="replace").splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            properties[key.strip()] = value.strip()
    return properties


def _parse(data: bytes, cluster_id: str, node_id: int) -> uuid.UUID:
    properties = _properties(data)
    directory_id = directory_id_of(data)
    if is_reserved(directory_id):
        raise MetaPropertiesError(f"{FILE_NAME}: directory.id {directory_id} is a reserved id")
    expected = {"version": _VERSION, "cluster.id": cluster_id, "node.id": str(node_id)}
    for key, value in expected.items():
        if properties.get(key) != value:
            raise MetaPropertiesError(
                f"{FILE_NAME}: {key} is {properties.get(key)!r}, the configuration says {value!r}"
            )
    return directory_id
