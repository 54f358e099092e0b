"""The events of a run in columns of Arrow, as `checkers.history.recorded` wants them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa

from checkers.history import NEMESIS, Event, EventType
from checkers.history.arrow import encode, take_rows
from checkers.history.recorded import Journal
from porcupine_py.columns import Int64s

_MADE_TOGETHER = 4096


class EventColumns(Journal):
    """Events in a table, in which `process` and `value` are JSON text (`results.store.tables`)."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Event]:
        for batch in self.table.to_batches(max_chunksize=_MADE_TOGETHER):
            yield from map(event_of, batch.to_pylist())

    @overload
    def __getitem__(self, row: int) -> Event: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Event]: ...
    def __getitem__(self, row: int | slice) -> Event | Sequence[Event]:
        if isinstance(row, slice):
            return self._make_events(np.arange(len(self))[row])
        return self._make_events(np.array([range(len(self))[row]]))[0]

    @cached_property
    def notes(self) -> Sequence[Event]:
        """The events of the nemesis."""
        return self._where("process", lambda text: text == _NEMESIS)

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """Times of the first and the last event of a client; zeros where there is none."""
        codes, texts = encode(self.table, "process")
        rows = np.flatnonzero(codes != texts.index(_NEMESIS)) if _NEMESIS in texts else codes
        if not len(rows):
            return 0, 0
        if rows is codes:
            return self._time_ns(0), self.end_ns
        return self._time_ns(int(rows[0])), self._time_ns(int(rows[-1]))

    @property
    def times_ns(self) -> Int64s:
        """Time of each event."""
        return np.from_dlpack(self.table.column("time_ns").combine_chunks()).astype(np.int64)

    @property
    def end_ns(self) -> int:
        """Time of the last event; -1 where there is none."""
        return self._time_ns(len(self) - 1) if len(self) else -1

    def failures(self, beginning: str) -> Sequence[Event]:
        """Return the events with errors that begin so."""
        return self._where("error", lambda text: text is not None and text.startswith(beginning))

    def _time_ns(self, row: int) -> int:
        return int(self.table.column("time_ns")[row].as_py())

    def _where(self, name: str, wanted: Callable[[str | None], bool]) -> Sequence[Event]:
        codes, texts = encode(self.table, name)
        chosen = [code for code, text in enumerate(texts) if wanted(text)]
        return self._make_events(np.flatnonzero(np.isin(codes, chosen))) if chosen else []

    def _make_events(self, rows: Any) -> list[Event]:
        names = [name for name in self.table.column_names if name in Event.__slots__]
        columns = [take_rows(self.table.column(name), rows).to_pylist() for name in names]
        return [event_of(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


_NEMESIS = json.dumps(NEMESIS)


def event_of(row: Mapping[str, Any]) -> Event:
    """Return the event of a row of a table; whatever else the row has."""
    return Event(
        index=row["index"],
        time_ns=row["time_ns"],
        process=json.loads(row["process"]),
        type=EventType(row["type"]),
        f=row["f"],
        key=row["key"],
        value=None if row["value"] is None else json.loads(row["value"]),
        error=row["error"],
        node=row["node"],
        offset=row["offset"],
        epoch=row["epoch"],
    )
