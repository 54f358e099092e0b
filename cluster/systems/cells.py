"""Configuration keys that workloads write and read: where a name of theirs lies in a system."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from cluster.client.admin_client import CLUSTER_RESOURCE, TOPIC_RESOURCE, Resource
from cluster.values import valueclass

LIST_PREFIX: Final = "kraftprobe.list."
"""Where names of cells begin that hold a list; its elements are `w<number>.<number>`."""


@valueclass
class Cell:
    """A configuration key that the harness may write and every node shows, perhaps a topic's."""

    resource: Resource
    key: str
    encode: Callable[[str], str] = str
    """Text of a workload -> how it is written there; of a list, its elements joined by commas."""
    decode: Callable[[str], str] = str
    """The inverse."""


CellOf = Callable[[str], Cell]
"""Name -> the cell of that name."""


def own_cell(name: str) -> Cell:
    """Return where a node of ours keeps a value of this name.

    It shows unknown keys of the brokers' cluster-wide default with their values; Kafka keeps them
    as well, and hides the values.
    """
    return list_cell(name) if name.startswith(LIST_PREFIX) else Cell(CLUSTER_RESOURCE, name)


def list_cell(name: str) -> Cell:
    """Return where a list of this name is kept.

    APPEND takes keys of topics and brokers alone, of type LIST. Of these only a topic's throttled
    replicas take elements without end, each a partition and a broker; that they do not exist
    matters to nobody.
    """
    return Cell(
        (TOPIC_RESOURCE, name),
        "follower.replication.throttled.replicas",
        encode=_as_replicas,
        decode=_as_elements,
    )


def _as_replicas(text: str) -> str:
    return re.sub(r"w(\d+)\.(\d+)", r"\1:\2", text)


def _as_elements(text: str) -> str:
    return re.sub(r"(\d+):(\d+)", r"w\1.\2", text)
