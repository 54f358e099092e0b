"""The kinds of steps and the options of each. Data for the parser, the driver and the shrinker.

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
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, create_model

from cluster.names import unknown
from cluster.schemas import Flag, Schema, Text, shown
from cluster.values import valueclass
from harness.errors import ScenarioError

TARGETS = ("leader", "follower", "followers", "random", "minority", "majority", "all")
"""Target words; besides these `@NAME` and `node:n2`. `follower`: one of them."""
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


@valueclass
class Option:
    """One option of a kind: its type as pydantic takes it, and what it is unless given."""

    type: Any
    default: Any


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


def _links(text: str) -> str:
    for link in filter(None, text.split(",")):
        if len(link.replace("-", ">").split(">")) != 2:
            raise ValueError(f"a link is written @A>@B or @A-@B, not {link!r}")
    return text


def _messages(text: str) -> str:
    for name in filter(None, text.split(",")):
        if name not in MESSAGE_TYPES:
            raise ValueError(unknown("type of message", name, MESSAGE_TYPES))
    return text


def _plain(value: object) -> object:
    if not isinstance(value, str | int | dict | None) or isinstance(value, bool):
        raise ValueError(f"must be a string, a whole number or a table, not {shown(value)}")  # noqa: TRY004  (pydantic's)
    return value


def _from(least: float, most: float, default: float) -> Option:
    return Option(Annotated[float, Field(strict=True, ge=least, le=most)], default)


_KEEP = Option(Literal["any", "nothing", "everything"], "any")
_LINKS = Option(Annotated[Text, AfterValidator(_links)], "")
_NAMES = Annotated[
    dict[Text, Text], Field(min_length=1, description="names of nodes, such as {A = 'leader'}")
]
_TABLE = Annotated[
    dict[str, Any], Field(min_length=1, description="a condition that says something")
]
_DOWN_MS = _from(0, 600_000, 50.0)

_ALL = (
    Kind("kill", takes_for=True, options={"keep": _KEEP}),
    Kind(
        "restart",
        options={
            "down_ms": _DOWN_MS,
            "keep": _KEEP,
            "graceful": Option(Flag, default=False),
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
            "shape": Option(Literal["targets", "halves", "bridge", "ring"], "targets"),
            "one_way": Option(Literal["", "in", "out"], ""),
        },
    ),
    Kind("cut", needs_targets=False, takes_for=True, options={"links": _LINKS}),
    Kind("join"),
    Kind(
        "hold",
        needs_targets=False,
        takes_for=True,
        options={"links": _LINKS, "types": Option(Annotated[Text, AfterValidator(_messages)], "")},
    ),
    Kind("release", needs_targets=False, options={"links": _LINKS}),
    Kind("drop_held", needs_targets=False, options={"links": _LINKS}),
    Kind(
        "lossy",
        needs_targets=False,
        takes_for=True,
        options={
            "loss": _from(0, 1, 0.0),
            "duplication": _from(0, 1, 0.0),
            "delay_ms": _from(0, 60_000, 0.0),
        },
    ),
    Kind("disk_stall", takes_for=True),
    Kind("disk_slow", takes_for=True, options={"sync_ms": _from(0, 60_000, 50.0)}),
    Kind("disk_error", may_end_node=True),
    Kind("clock_rate", takes_for=True, options={"rate": _from(0.05, 20, 2.0)}),
    Kind("clock_jump", options={"jump_ms": _from(-1e9, 1e9, 1000.0)}),
    Kind(
        "bit_rot",
        options={
            "file": Option(Literal["log", "quorum-state"], "quorum-state"),
            "at": _from(0, 1, 0.5),
            "down_ms": _DOWN_MS,
        },
        may_end_node=True,
    ),
    Kind(
        "voters",
        needs_targets=False,
        options={"change": Option(Literal["upgrade", "add", "remove"], "upgrade")},
    ),
    Kind(
        "wipe",
        options={
            "down_ms": _DOWN_MS,
            "repair_ms": _from(0, 600_000, 2_000.0),
        },
    ),
    Kind("resign"),
    Kind("snapshot"),
    Kind("heal", needs_targets=False),
    Kind("cast", needs_targets=False, options={"names": Option(_NAMES, ...)}, is_fault=False),
    Kind(
        "op",
        needs_targets=False,
        options={
            "id": Option(Text, ""),
            "f": Option(Text, "write"),
            "key": Option(Text | None, None),
            "value": Option(Annotated[Any, AfterValidator(_plain)], None),
        },
        is_fault=False,
    ),
    Kind("wait", needs_targets=False, is_fault=False),
    Kind(
        "expect",
        needs_targets=False,
        takes_for=True,
        options={"that": Option(_TABLE, ...), "property": Option(Text, "expectation")},
        is_fault=False,
    ),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
"""By name."""

FAULTS: tuple[str, ...] = tuple(kind.name for kind in _ALL if kind.is_fault)
"""The kinds that do something to the world."""


@cache
def options_of(kind: str) -> Schema[BaseModel]:
    """Return what the options of a kind may be."""
    options = {name: (option.type, option.default) for name, option in KINDS[kind].options.items()}
    return Schema(create_model(kind, **options), ScenarioError)  # type: ignore[call-overload]
