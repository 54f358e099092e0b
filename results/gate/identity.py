"""Which run this is: name, seed and times against its content, which counts once.

A run's plan says how it is called, and its name when it began. Both could be typed anew, and the
chain of digests made anew behind that, so they are compared with what else says so:

| what | says |
|---|---|
| the folder, where it is called as runs are | the run's name |
| the first event of the journal | the run's name, its seed, when the harness began |
| the first batch of each node's log | when the node wrote it, in ms since 1970 |

A simulated run has neither a name nor a time of day inside: equal seeds must give equal bytes.

No true run breaks this. The harness makes name, plan and first event in one process, within
seconds of each other. Nodes write the first batch of a log within the run, by the clock of their
host, which may be wrong by less than `_SKEW`; a fault may shift the clock of a node, or wipe its
log, but not those of all nodes before they have written anything, so one node that agrees suffices.

**Content** is what the clients did and saw, in order, whatever processes, keys and values are
called: the same journal under another name, or with every time shifted, is the same content. In two
runs of a cluster hundreds of events of several processes do not fall in the same order with the
same answers; two simulated runs of one seed do, and they are the same run.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from checkers.evidence import PHASE
from checkers.history import NEMESIS, Event
from checkers.history.arrow import encode
from extensions.plain_files import open_plain
from porcupine_py.columns import Int64s
from results.store.facts import started_of
from results.store.files import reading
from results.store.run_store import RunStore

_SKEW = dt.timedelta(hours=1)
_NAMED = ("type", "f")
"""Columns of events whose values count; of the others only which are equal."""
_ANONYMOUS = ("process", "key", "value")
_NEMESIS = json.dumps(NEMESIS)
_FIRST_TIMESTAMP = struct.Struct(">27xq")
"""Of a batch of records of version 2, KIP-98: base offset, length, leader epoch, magic, CRC,
attributes, last offset delta, then the base timestamp in ms."""


def content_of(events: pa.Table) -> str:
    """Digest what clients did and saw. `events`: of `results.store.tables.EVENTS_SCHEMA`."""
    processes, names = encode(events, "process")
    clients = processes != names.index(_NEMESIS) if _NEMESIS in names else ...
    digest = hashlib.sha256()
    for name in (*_NAMED, *_ANONYMOUS):
        codes, values = encode(events, name)
        codes, order = _by_appearance(codes[clients], len(values))
        digest.update(codes.tobytes())
        if name in _NAMED:
            digest.update(json.dumps([values[code] for code in order]).encode("ascii"))
    return digest.hexdigest()


def _by_appearance(codes: NDArray[Any], kinds: int) -> tuple[Int64s, list[int]]:
    """Number codes anew by their first appearance; and which they were, in that order."""
    first = np.full(kinds, len(codes), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of several the last stays: the first row
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
    ranks = np.zeros(kinds, np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[codes], order.tolist()


def disagreement(store: RunStore, plan: Mapping[str, Any], start: Event | None) -> str | None:
    """Say what does not belong together of a run's folder, name, seed and times.

    `start`: the first note of its journal.
    """
    run = str(plan.get("run"))
    folder = store.folder.resolve().name
    if folder != run and started_of(folder) is not None:
        return f"its folder is called {folder}, and its plan says that it is run {run}"
    said = start.value if start is not None and start.f == PHASE else None
    if not isinstance(said, dict) or said.get("name") != "start":
        return "its journal does not begin with the start of a run"
    if "seed" not in said or said["seed"] != plan.get("seed"):
        return f"its journal is one of seed {said.get('seed')!r}, its plan of {plan.get('seed')!r}"
    if plan.get("backend") == "sim":
        return None
    if said.get("run") != run:
        return f"its journal is that of run {said.get('run')}, and its plan says that it is {run}"
    began = _moment(said.get("at"))
    named = started_of(run)
    if began is None:
        return "its journal does not say when it began"
    if named is not None and abs(began - named) > _SKEW:
        return f"its name says that it began at {_date(named)}, and its journal at {_date(began)}"
    times = list(_times_of_nodes(store))
    if times and not any(abs(time - began) <= _SKEW for time in times):
        return (
            f"its journal says that it began at {_date(began)}, and its nodes wrote their first "
            f"records at {_date(min(times))}"
        )
    return None


def _times_of_nodes(store: RunStore) -> Iterator[dt.datetime]:
    """Yield when each log of a node was begun, of those that say so."""
    for path in sorted(store.nodes_path.glob(f"*/**/{'[0-9]' * 20}.log")):
        with reading(path), open_plain(path) as file:
            head = file.read(_FIRST_TIMESTAMP.size)
        if len(head) == _FIRST_TIMESTAMP.size:
            (time_ms,) = _FIRST_TIMESTAMP.unpack(head)
            try:
                yield dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)
            except (ValueError, OverflowError, OSError):
                continue


def _moment(text: object) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _date(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
