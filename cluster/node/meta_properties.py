"""`meta.properties`: to which cluster and node a folder belongs, and the folder's own identity.

Written once, before anything else is in the folder but a bootstrap checkpoint, and never changed
(KIP-853 needs the directory id: a voter with a wiped disk must not pass for the one that voted).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final

from cluster.node.ports import Disk, Random
from cluster.node.wire.uuid_text import uuid_from_text, uuid_to_text

FILE_NAME: Final = "meta.properties"
_TEMPORARY: Final = "meta.properties.tmp"
_VERSION: Final = "1"


class MetaPropertiesError(Exception):
    """The folder is not this node's, or its identity cannot be read. One line."""


def load_or_format(
    disk: Disk,
    cluster_id: str,
    node_id: int,
    random: Random,
    done: Callable[[uuid.UUID | OSError], None],
    wanted: uuid.UUID | None = None,
    besides: frozenset[str] = frozenset(),
) -> None:
    """Read the folder's directory id, or format an empty folder with `wanted` or a random one.

    `besides`: names that may be in a folder that counts as empty.

    `done` is called once: within this call when the file is there, else when it is durable or the
    disk failed. Raises MetaPropertiesError.
    """
    if disk.exists(FILE_NAME):
        done(_parse(disk.read(FILE_NAME), cluster_id, node_id))
        return
    check_is_empty(disk, besides)
    directory_id = random_uuid(random) if wanted is None else wanted
    content = (
        f"version={_VERSION}\n"
        f"cluster.id={cluster_id}\n"
        f"node.id={node_id}\n"
        f"directory.id={uuid_to_text(directory_id)}\n"
    )

    def renamed(error: OSError | None) -> None:
        done(directory_id if error is None else error)

    def written(error: OSError | None) -> None:
        if error is not None:
            done(error)
            return
        disk.rename(_TEMPORARY, FILE_NAME)
        disk.sync_directory("", renamed)

    disk.write(_TEMPORARY, content.encode())
    disk.sync(_TEMPORARY, written)


def formatted_cluster_id(disk: Disk) -> str | None:
    """Return the cluster that a folder was formatted for, None when it was not or does not say."""
    if not disk.exists(FILE_NAME):
        return None
    return _properties(disk.read(FILE_NAME)).get("cluster.id")


def directory_id_of(data: bytes) -> uuid.UUID:
    """Read the directory id from the file's bytes. Raises MetaPropertiesError."""
    try:
        return uuid_from_text(_properties(data)["directory.id"])
    except (ValueError, KeyError) as error:
        raise MetaPropertiesError(f"{FILE_NAME} has no readable directory.id") from error


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
    expected = {"version": _VERSION, "cluster.id": cluster_id, "node.id": str(node_id)}
    for key, value in expected.items():
        if properties.get(key) != value:
            raise MetaPropertiesError(
                f"{FILE_NAME}: {key} is {properties.get(key)!r}, the configuration says {value!r}"
            )
    return directory_id
