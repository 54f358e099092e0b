"""The kinds of steps and what each may be told. Data for the parser, the driver and the shrinker.

| kind | acts on | options | undone by |
|---|---|---|---|
| `kill` | nodes: power loss, at this very event | `keep` (of unsynced writes: any, nothing, everything) | start |
| `restart` | nodes: `kill` and start `down_ms` later; `graceful` asks them to stop instead | `down_ms`, `keep`, `graceful` | nothing |
| `pause`, `resume` | nodes: like SIGSTOP and SIGCONT | | resume |
| `start` | nodes that are down | | nothing |
| `partition` | `targets` against the rest, or a whole `shape` | `shape`, `one_way` (in, out) | restored links |
| `cut` | the links `links` (`@A>@B`, `@A-@B` for both ways) | `links` | restored links |
| `join` | what was cut on account of the targets is restored | | nothing |
| `hold` | messages of `types` on `links` are kept | `links`, `types` | delivery, in order |
| `release` | what is held on `links` (all without) is delivered, and nothing more held | `links` | nothing |
| `drop_held` | the same, but it is lost | `links` | nothing |
| `lossy` | all links: `loss`, `duplication`, `delay_ms` more (uniform up to) | those | nothing left of it |
| `disk_stall` | no fsync completes | | goes on |
| `disk_slow` | an fsync takes `sync_ms` | `sync_ms` | as before |
| `disk_error` | the next fsync fails, the node dies of it | | nothing; the node is started at the heal |
| `clock_rate` | timers run `rate` times as fast | `rate` | true again |
| `clock_jump` | the wall clock jumps `jump_ms` | `jump_ms` | nothing |
| `bit_rot` | one bit of `file` (log, quorum-state) flips while the node is down | `file`, `at` (0 to 1) | nothing |
| `voters` | `change`: `upgrade` kraft.version to 1, or `add` or `remove` the targets as voters | `change` | nothing |
| `wipe` | a node's disk is lost, it starts `down_ms` later with an empty one; who was a voter is replaced `repair_ms` later | `down_ms`, `repair_ms` | the replacement |
| `resign` | nodes that lead give up leading | | nothing |
| `snapshot` | nodes snapshot what they have replayed | | nothing |
| `heal` | everything is undone, all nodes run | | nothing |
| `cast` | gives nodes names: `{"A": "leader", "B": "follower"}` | `names` | |
| `op` | a client asks `targets` (or the supposed leader) for `f`, `key`, `value` | `id`, `f`, `key`, `value`, `worker` | |
| `wait` | nothing: for `until` | | |
| `expect` | `that` must hold within `within_ms`, and with `for_ms` stay so | `that`, `property`, `for_ms` | |

A held message is one that the network delivers later: nothing that a real network cannot do to
datagrams, and what a proxy between two nodes does to a stream.
"""

# ruff: noqa: E501  (the table)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from cluster.values import valueclass

TARGETS = ("leader", "follower", "followers", "random", "minority", "majority", "all")
"""Target words; besides these `@NAME` and `node:n2`. `follower`: one of them."""
SHAPES = ("targets", "halves", "bridge", "ring")
KEEPS = ("any", "nothing", "everything")
MESSAGE_TYPES = (
    "VoteRequest",
    "VoteResponse",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "FetchRequest",
    "FetchResponse",
)
CHANGES = ("upgrade", "add", "remove")
FILES = ("log", "quorum-state")


@valueclass
class Option:
    """One option of a kind: its type, what it may be, and what it is unless told."""

    type: type | tuple[type, ...]
    default: Any
    choices: tuple[Any, ...] = ()
    least: float = 0.0
    most: float = 1e9


@valueclass
class Kind:
    """One kind of step."""

    name: str
    needs_targets: bool = True
    takes_for: bool = False
    options: Mapping[str, Option] = field(default_factory=dict)
    is_fault: bool = True
    may_end_node: bool = False
    """Whether a node that it hits may end itself, its storage having failed it."""


_NUMBER = (int, float)
_KEEP = Option(str, "any", KEEPS)
_LINKS = Option(str, "")

_ALL = (
    Kind("kill", takes_for=True, options={"keep": _KEEP}),
    Kind(
        "restart",
        options={
            "down_ms": Option(_NUMBER, 50.0, most=600_000),
            "keep": _KEEP,
            "graceful": Option(bool, False),  # noqa: FBT003  (a default value)
        },
    ),
    Kind("pause", takes_for=True),
    Kind("resume"),
    Kind("start"),
    Kind(
        "partition",
        needs_targets=False,
        takes_for=True,
        options={
            "shape": Option(str, "targets", SHAPES),
            "one_way": Option(str, "", ("", "in", "out")),
        },
    ),
    Kind("cut", needs_targets=False, takes_for=True, options={"links": _LINKS}),
    Kind("join"),
    Kind(
        "hold",
        needs_targets=False,
        takes_for=True,
        options={"links": _LINKS, "types": Option(str, "")},
    ),
    Kind("release", needs_targets=False, options={"links": _LINKS}),
    Kind("drop_held", needs_targets=False, options={"links": _LINKS}),
    Kind(
        "lossy",
        needs_targets=False,
        takes_for=True,
        options={
            "loss": Option(_NUMBER, 0.0, most=1.0),
            "duplication": Option(_NUMBER, 0.0, most=1.0),
            "delay_ms": Option(_NUMBER, 0.0, most=60_000),
        },
    ),
    Kind("disk_stall", takes_for=True),
    Kind("disk_slow", takes_for=True, options={"sync_ms": Option(_NUMBER, 50.0, most=60_000)}),
    Kind("disk_error", may_end_node=True),
    Kind("clock_rate", takes_for=True, options={"rate": Option(_NUMBER, 2.0, least=0.05, most=20)}),
    Kind("clock_jump", options={"jump_ms": Option(_NUMBER, 1000.0, least=-1e9)}),
    Kind(
        "bit_rot",
        options={
            "file": Option(str, "quorum-state", FILES),
            "at": Option(_NUMBER, 0.5, most=1.0),
            "down_ms": Option(_NUMBER, 50.0, most=600_000),
        },
        may_end_node=True,
    ),
    Kind("voters", needs_targets=False, options={"change": Option(str, "upgrade", CHANGES)}),
    Kind(
        "wipe",
        options={
            "down_ms": Option(_NUMBER, 50.0, most=600_000),
            "repair_ms": Option(_NUMBER, 2_000.0, most=600_000),
        },
    ),
    Kind("resign"),
    Kind("snapshot"),
    Kind("heal", needs_targets=False),
    Kind("cast", needs_targets=False, options={"names": Option(dict, None)}, is_fault=False),
    Kind(
        "op",
        needs_targets=False,
        options={
            "id": Option(str, ""),
            "f": Option(str, "write"),
            "key": Option((str, type(None)), None),
            "value": Option((str, int, dict, type(None)), None),
        },
        is_fault=False,
    ),
    Kind("wait", needs_targets=False, is_fault=False),
    Kind(
        "expect",
        needs_targets=False,
        takes_for=True,
        options={"that": Option(dict, None), "property": Option(str, "expectation")},
        is_fault=False,
    ),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
"""By name."""

FAULTS: tuple[str, ...] = tuple(kind.name for kind in _ALL if kind.is_fault)
"""The kinds that do something to the world."""
