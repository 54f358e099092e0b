"""Words that backends, their abilities and faults share."""

from __future__ import annotations

from typing import Literal

from cluster.values import valueclass

Link = tuple[str, str]
"""(source node, target node): the bytes that travel from source to target, whichever dialled."""

Need = Literal["clocks", "disks"]
"""What must be in place around nodes before they start."""


class BackendError(Exception):
    """The environment cannot do what was asked; the message is one line for a person.

    Examples: a port is taken, a node ended while it started, a folder cannot be written.
    """


class NoPlaceError(BackendError):
    """No node can run in this place, whatever is asked of it: its engine or image is missing."""


@valueclass
class Probe:
    """Whether something can work here, found out by trying; for `kraftprobe doctor`."""

    possible: bool
    reason: str = ""
    """Why not; or a caveat."""
    remedy: str = ""
    """The exact command or change that would make it possible, where there is one."""


ONE_NODE = Probe(possible=False, reason="one node has no links", remedy="--nodes 3")
