"""Which runs `runs prune` removes, and which it must leave."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence

from cluster.backends.cleanup import find_leftovers
from harness.judge.stored_runs import cleanup_of
from results.catalogue.rows import Entry
from results.store.files import StoreError
from results.store.pruning import Removal, removal_of

_QUIET = dt.timedelta(minutes=10)
"""A harness writes more often, whatever its run does."""


def choose(
    entries: Sequence[Entry], days: float | None, keep: int | None, now: dt.datetime
) -> list[Entry]:
    """Choose by age, and leave the newest of each campaign. What has no date is never too old."""
    if days is not None:
        bound = now - dt.timedelta(days=days)
        entries = [e for e in entries if e.row.started is not None and e.row.started < bound]
    if keep is None:
        return list(entries)
    kept: Counter[str] = Counter()
    left = []
    for entry in sorted(entries, key=_newest_first):
        kept[entry.row.campaign] += 1
        if kept[entry.row.campaign] > keep:
            left.append(entry)
    return sorted(left, key=lambda entry: entry.row.run)


def _newest_first(entry: Entry) -> tuple[float, str]:
    started = entry.row.started
    return (0.0 if started is None else -started.timestamp(), entry.row.run)


def removals(entries: Sequence[Entry], now: dt.datetime) -> tuple[list[Removal], list[str]]:
    """Say what can be removed of each run, and of which runs nothing can be, and why."""
    found, refused = [], []
    for entry in entries:
        try:
            removal = removal_of(entry.store)
            if (reason := _live(removal, now)) is None:
                found.append(removal)
            else:
                refused.append(reason)
        except StoreError as error:
            refused.append(str(error))
    return found, refused


def _live(removal: Removal, now: dt.datetime) -> str | None:
    """Say why a run may go on: its nodes live, or its harness wrote a moment ago."""
    store = removal.store
    run = store.folder.resolve().name
    if find_leftovers(run_id=run):
        return f"{store.folder}: its nodes still run; it stays ({cleanup_of(store.folder)})"
    is_judged = removal.ended and store.results_path.exists()
    if not is_judged and removal.written > now - _QUIET:
        what = "not judged yet" if removal.ended else "not at its end"
        return f"{store.folder}: it is {what} and was written a moment ago; it stays"
    return None
