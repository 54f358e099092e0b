"""What runs measured while which fault was active: latencies, unavailability, recoveries.

For many runs: each is read from its stored tables, column by column and one after the other, and
leaves a few rows. Times are milliseconds and seconds since its run began. A run says nothing here
if it was not judged. `fault` is the kind of a fault, or `none`.

| table | a row is | columns |
|---|---|---|
| `latencies` | run, fault, kind (read, write) | operations, p50_ms, p90_ms, p99_ms, max_ms |
| `windows` | run, a time of at least 1 s without an `ok` | begin_s, lasted_s, fault |
| `recoveries` | run, fault, phase (inject, heal), targets | at_s, recovery_s |

An operation belongs to each fault that bit and was active at some time between its invocation and
its completion, and to `none` where there was none; only `ok` ones have a latency. Percentiles are
by nearest rank. A window lies between two completions with `ok`, while clients asked
(`results.store.facts`), and has a row for each kind of fault that was active in it. A recovery is
the time from a fault, or its heal, to the first write served after it, as the check `statistics`
has it; null where none came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from checkers.history import INFINITY_NS, Event
from checkers.history.arrow import encode, numbers, numbers_or
from checkers.history.event_columns import EventColumns
from checkers.history.recorded import ends_at
from checkers.runs.faults import fault_spans
from checkers.runs.statistics import NAME as STATISTICS
from checkers.runs.statistics import READS, latency_figures
from porcupine_py.columns import NO_END, Int64s
from results.catalogue.rows import Entry
from results.store.facts import load_end_ns, served_points
from results.store.files import StoreError
from results.store.tables import EVENTS_FILE, OPERATIONS_FILE

NO_FAULT = "none"
WINDOW_MIN_S = 1.0
"""Shorter times without an `ok` are what any election takes."""
_NS_PER_S = 1e9
_COLUMNS = ("f", "type", "invoke_ns", "complete_ns", "end_index")


def _schema(texts: str, floats: str, integers: str = "") -> pa.Schema:
    kinds = ((texts, pa.string()), (integers, pa.int64()), (floats, pa.float64()))
    return pa.schema([(name, kind) for names, kind in kinds for name in names.split()])


SCHEMAS: Mapping[str, pa.Schema] = {
    "latencies": _schema("run fault kind", "p50_ms p90_ms p99_ms max_ms", "operations"),
    "windows": _schema("run fault", "begin_s lasted_s"),
    "recoveries": _schema("run fault phase targets", "at_s recovery_s"),
}


def figure_tables(entries: Iterable[Entry]) -> dict[str, pa.Table]:
    """Return the three tables over these runs. Raises StoreError for a table that is damaged."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
    for entry in entries:
        operations = entry.store.parquet_path / OPERATIONS_FILE
        events = entry.store.parquet_path / EVENTS_FILE
        if entry.results is None or not operations.is_file() or not events.is_file():
            continue
        run = entry.row.run
        rows["recoveries"] += _recoveries(run, entry)
        try:
            table = pq.read_table(
                operations, columns=list(_COLUMNS), page_checksum_verification=True
            )
            times = pq.read_table(events, columns=["time_ns"], page_checksum_verification=True)
            batches = pq.ParquetFile(events, page_checksum_verification=True).iter_batches()
            parts = (EventColumns(pa.Table.from_batches([each])) for each in batches)
            notes = [note for part in parts for note in part.notes]
            measured = _Measured(table, notes, numbers(times, "time_ns"))
        except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
            raise StoreError(f"{operations.parent}: its tables cannot be read") from error
        rows["latencies"] += measured.latencies(run)
        rows["windows"] += measured.windows(run)
    return {name: pa.Table.from_pylist(rows[name], schema) for name, schema in SCHEMAS.items()}


class _Measured:
    """The operations of one run, and when which fault was active."""

    def __init__(self, table: pa.Table, notes: Sequence[Event], times_ns: Int64s) -> None:
        f, functions = encode(table, "f")
        kind, kinds = encode(table, "type")
        self.reads = np.array([name in READS for name in functions] or [False])[f]
        self.ok = np.array([name == "ok" for name in kinds] or [False])[kind]
        self.invoke_ns: Int64s = numbers(table, "invoke_ns")
        self.complete_ns: Int64s = numbers(table, "complete_ns")
        self.ends_ns = ends_at(numbers_or(table, "end_index", NO_END), times_ns)
        self.load_end_ns = load_end_ns(notes)
        self.spans: dict[str, list[tuple[int, int]]] = {}
        for span in (span for span in fault_spans(notes) if span.verified or span.is_left):
            end_ns = INFINITY_NS if span.end_ns is None else span.end_ns
            self.spans.setdefault(span.fault, []).append((span.begin_ns, end_ns))

    def latencies(self, run: str) -> Iterator[dict[str, Any]]:
        """Yield a row for each fault and kind of operation that has any."""
        took_ns = self.complete_ns - self.invoke_ns
        during = {fault: self._overlaps(spans) for fault, spans in sorted(self.spans.items())}
        calm = ~np.any([*during.values(), np.zeros(len(took_ns), np.bool_)], axis=0)
        for fault, there in {NO_FAULT: calm, **during}.items():
            for kind, mine in (("read", self.reads), ("write", ~self.reads)):
                chosen = np.sort(took_ns[there & mine & self.ok])
                if len(chosen):
                    found = {f"{name}_ms": value for name, value in latency_figures(chosen).items()}
                    counted = {"kind": kind, "operations": found.pop("count_ms")}
                    yield {"run": run, "fault": fault, **counted, **found}

    def windows(self, run: str) -> Iterator[dict[str, Any]]:
        """Yield a row for each long time without an `ok`, and each fault that was active in it."""
        points = served_points(
            self.invoke_ns, self.complete_ns, self.ends_ns, self.ok, self.load_end_ns
        )
        for at in np.flatnonzero(np.diff(points) >= WINDOW_MIN_S * _NS_PER_S).tolist():
            begin_ns, end_ns = int(points[at]), int(points[at + 1])
            active = sorted(
                fault
                for fault, spans in self.spans.items()
                if any(begin <= end_ns and end >= begin_ns for begin, end in spans)
            )
            for fault in active or [NO_FAULT]:
                yield {
                    "run": run,
                    "fault": fault,
                    "begin_s": begin_ns / _NS_PER_S,
                    "lasted_s": (end_ns - begin_ns) / _NS_PER_S,
                }

    def _overlaps(self, spans: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
        found = np.zeros(len(self.invoke_ns), np.bool_)
        for begin_ns, end_ns in spans:
            found |= (self.invoke_ns <= end_ns) & (self.complete_ns >= begin_ns)
        return found


def _recoveries(run: str, entry: Entry) -> Iterator[dict[str, Any]]:
    assert entry.results is not None, "the caller looked"
    for check in entry.results.checks:
        found = check.statistics.get("recoveries") if check.checker == STATISTICS else None
        for row in found if isinstance(found, list) else ():
            if not isinstance(row, dict) or not isinstance(row.get("at_ns"), int):
                continue
            took, targets = row.get("recovery_ms"), row.get("targets")
            yield {
                "run": run,
                "fault": str(row.get("fault")),
                "phase": str(row.get("phase")),
                "targets": ", ".join(map(str, targets)) if isinstance(targets, list) else "",
                "at_s": row["at_ns"] / _NS_PER_S,
                "recovery_s": took / 1000 if isinstance(took, int | float) else None,
            }
