"""Frames between this process and the JVM that holds the nodes of one release.

Everything is big-endian; a text or a blob has its length before it. A frame to the JVM is one
command, its answer the effects of that command in the order in which they happened, and for
commands that run a node a trailer that says how the node stands.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, Self

from cluster.node.ports import Endpoint
from cluster.values import valueclass

REQUEST, ANSWER, BROKEN = range(3)
"""What a step brings a node: a request, the answer to one of its own, or its connection's end."""
HERE: Final = -1
"""Of an append: the epoch that the node is in."""

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_UUID: Final = struct.Struct(">QQ")


class Effect(IntEnum):
    """What a node did, and its fields, as of `struct`; `t` is a text, `b` a blob."""

    body: str

    def __new__(cls, kind: int, body: str = "") -> Self:
        made = int.__new__(cls, kind)
        made._value_, made.body = kind, body
        return made

    END = 0, "?qqq"
    SEND = 1, "iitihhb"
    REPLY = 2, "qb"
    STATE = 3, "iii"
    APPEND = 4, "qqiI"
    FLUSH = 5, "q"
    TRUNCATE = 6, "q"
    HW = 7, "q"
    COMMIT = 8, "qib"
    LEADER = 9, "ii"
    FAULT = 10, "ttt"
    ROLE = 11, "t"
    APPENDED = 12, "q"
    REFUSED = 13, "t"
    LOG = 14, "t"
    IN_FLUSH = 16, "Bq"
    DOWN = 17
    SNAPSHOT = 18, "qiqI"
    LOADED = 19, "qiqI"
    LOG_START = 20, "q"
    DISK = 21, "qqqq"
    BATCH = 22, "qqib"
    CHECKPOINT = 23, "qib"
    API = 24, "hhh"
    VOTERS = 25


_Part = tuple[struct.Struct, str]
"""Numbers, and what follows them: `t`, `b`, of which the last number is the length, or nothing."""


def _parts(kind: int, body: str) -> tuple[_Part, ...]:
    """Join an effect's kind, neighbouring numbers and the length behind them into one struct."""
    parts: list[_Part] = []
    numbers = "B"
    for letter in body:
        if letter in "tb":
            parts.append((struct.Struct(f">{numbers}i"), letter))
            numbers = ""
        else:
            numbers += letter
    if numbers:
        parts.append((struct.Struct(f">{numbers}"), ""))
    assert parts, kind
    return tuple(parts)


_PLANS: Final = {int(kind): _parts(kind, kind.body) for kind in Effect if kind is not Effect.VOTERS}

_Reader = tuple[Callable[[bytes, int], tuple[Any, ...]], int, int, tuple[_Part, ...]]
_OF_NUMBERS, _OF_A_BLOB, _OF_PARTS, _OF_VOTERS = range(4)


def _reader(kind: int) -> _Reader | None:
    """Return (unpack, size, form, parts) of an effect; the first two are of its first part."""
    parts = _PLANS.get(kind)
    if parts is None:
        return (_read_voters, 0, _OF_VOTERS, ()) if kind == Effect.VOTERS else None
    numbers, letters = parts[0][0], [letter for _, letter in parts]
    form = {"": _OF_NUMBERS, "b": _OF_A_BLOB}.get(letters[0], _OF_PARTS)
    return numbers.unpack_from, numbers.size, form if len(parts) == 1 else _OF_PARTS, parts


Effects = list[tuple[Any, ...]]
"""(kind, *fields) each."""


def _read_voters(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    """Read ((VOTERS, offset, {id: directory}), where it ends)."""
    at += 1
    (offset,) = _LONG.unpack_from(data, at)
    (count,) = _INT.unpack_from(data, at + _LONG.size)
    at += _LONG.size + _INT.size
    voters: dict[int, uuid.UUID] = {}
    for _ in range(count):
        (voter,) = _INT.unpack_from(data, at)
        high, low = _UUID.unpack_from(data, at + _INT.size)
        voters[voter] = uuid.UUID(int=high << 64 | low)
        at += _INT.size + _UUID.size
    return (Effect.VOTERS, offset, voters), at


_READERS: Final = [_reader(kind) for kind in range(max(Effect) + 1)]
"""By kind; None: there is no such effect."""


def read_effects(data: bytes, at: int = 0) -> Effects:
    """Split an answer, from a position on. Raises ValueError for an effect that is not known."""
    found: Effects = []
    fields: list[Any]
    end = len(data)
    while at < end:
        reader = _READERS[data[at]] if data[at] < len(_READERS) else None
        if reader is None:
            raise ValueError(f"the JVM reports effect {data[at]}, which is none")
        unpack, size, form, parts = reader
        if form == _OF_NUMBERS:
            found.append(unpack(data, at))
            at += size
        elif form == _OF_A_BLOB:
            *fields, length = unpack(data, at)
            at += size + length
            found.append((*fields, data[at - length : at]))
        elif form == _OF_PARTS:
            fields = []
            for part, letter in parts:
                fields += part.unpack_from(data, at)
                at += part.size
                if letter:
                    blob = data[at : at + fields[-1]]
                    at += fields[-1]
                    fields[-1] = blob.decode() if letter == "t" else blob
            found.append(tuple(fields))
        else:
            effect, at = unpack(data, at)
            found.append(effect)
    return found


@valueclass
class Start:
    """What a process is started with."""

    node_id: int
    now_ms: int
    directory: uuid.UUID
    seed: int
    cluster_id: str
    may_vote: bool
    config: Mapping[str, str]
    voters: Sequence[Endpoint]
    """Static voters; none where they are in the log."""
    bootstrap: Sequence[Endpoint]


def _text(text: str) -> bytes:
    return _blob(text.encode())


def _blob(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def reset(*, logs: bool) -> bytes:
    """Forget all nodes; `logs`: report what they log."""
    return struct.pack(">b?", 0, logs)


def start(of: Start) -> bytes:
    """Start a process."""
    parts = [struct.pack(">biq", 1, of.node_id, of.now_ms), of.directory.bytes]
    parts += [_LONG.pack(of.seed), _text(of.cluster_id), struct.pack(">?", of.may_vote)]
    parts.append(_INT.pack(len(of.config)))
    for key, value in of.config.items():
        parts += [_text(key), _text(value)]
    parts.append(_INT.pack(len(of.voters)))
    for voter in of.voters:
        parts += [_INT.pack(voter.node_id), _text(voter.host), _INT.pack(voter.port)]
    parts.append(_INT.pack(len(of.bootstrap)))
    for server in of.bootstrap:
        parts += [_text(server.host), _INT.pack(server.port)]
    return b"".join(parts)


_STEP: Final = struct.Struct(">biqi")
_REQUEST: Final = struct.Struct(">bqhhi")
_ANSWER: Final = struct.Struct(">bihi")


def request(token: int, api: int, version: int, body: bytes) -> bytes:
    """Bring a node a request, which it answers by this token."""
    return _REQUEST.pack(REQUEST, token, api, version, len(body)) + body


def answer(correlation: int, version: int, body: bytes) -> bytes:
    """Bring a node the answer to a request of its own."""
    return _ANSWER.pack(ANSWER, correlation, version, len(body)) + body


def disconnection(correlation: int, version: int) -> bytes:
    """Report to a node that the connection of a request of its own has ended."""
    return _ANSWER.pack(BROKEN, correlation, version, 0)


def step(node_id: int, now_ms: int, items: Sequence[bytes]) -> bytes:
    """Run a node, after it got these."""
    return _STEP.pack(2, node_id, now_ms, len(items)) + b"".join(items)


def append(node_id: int, now_ms: int, value: bytes, epoch: int = HERE) -> bytes:
    """Let a leader append a record."""
    return struct.pack(">biqi", 3, node_id, now_ms, epoch) + _blob(value)


def kill(node_id: int, *, keep: int, torn: int, flush: int) -> bytes:
    """Power loss: of what was not flushed, `keep` batches and `torn` bytes of the next survive.

    `torn`: -1 where the power stays on, and what survives is no more durable than before. `flush`:
    0, or which flush of the last answer was under way.
    """
    return struct.pack(">biiii", 4, node_id, keep, torn, flush)


def format_disk(node_id: int, voters: Iterable[tuple[int, uuid.UUID]]) -> bytes:
    """Write the checkpoint 0-0 with these voters."""
    listed = [_INT.pack(voter) + directory.bytes for voter, directory in voters]
    return struct.pack(">bii", 5, node_id, len(listed)) + b"".join(listed)


def resign(node_id: int, now_ms: int) -> bytes:
    """Let a leader resign."""
    return struct.pack(">biq", 7, node_id, now_ms)


def shut_down(node_id: int, now_ms: int, timeout_ms: int) -> bytes:
    """End gracefully."""
    return struct.pack(">biqi", 8, node_id, now_ms, timeout_ms)


def snapshot(node_id: int, now_ms: int, offset: int = -1) -> bytes:
    """Let a node write a snapshot of all below an offset; -1: of what is committed."""
    return struct.pack(">biqq", 9, node_id, now_ms, offset)


def set_clock(node_id: int, by_ms: int) -> bytes:
    """Report that a node's wall clock was set."""
    return struct.pack(">biq", 12, node_id, by_ms)


def state(node_id: int) -> bytes:
    """Ask for what is on a node's disk."""
    return struct.pack(">bi", 10, node_id)


def cap(api: int, version: int, destination: int = -1) -> bytes:
    """Bound the version of an API in requests to a node, or to all."""
    return struct.pack(">bhhi", 11, api, version, destination)
