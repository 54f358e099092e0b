"""Configuration keys that workloads write and read: where a name of theirs lies in a system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster.client.admin_client import Resource
from cluster.values import valueclass

LIST_PREFIX: Final = "kraftprobe.list."
"""Where names of cells begin that hold a list; its elements are `w<number>.<number>`."""


@valueclass
class Cell:
    """A configuration key that the harness may write and every node shows.

    It may be one of a topic, which has to be created first.
    """

    resource: Resource
    key: str
    encode: Callable[[str], str] = str
    """Text of a workload -> how it is written there; of a list, its elements joined by commas."""
    decode: Callable[[str], str] = str
    """The inverse."""


CellOf = Callable[[str], Cell]
"""Name -> the cell of that name."""
