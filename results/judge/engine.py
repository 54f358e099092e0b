"""What judges stored runs: this process, or Spark where that pays; and this process if Spark dies.

A run is judged in columns, by kernels that take less than reading it, so that for one run Spark is
never ahead on one machine, whatever its size; it is used where a master is named, and then keys are
judged side by side (`results.judge.spark_jobs`). Many runs are what pays: each is a task, and what
takes one core (evidence, reports, the rest of a judgement) is done for as many runs at a time as
there are cores. A session costs some ten seconds of processor time before it judges anything;
docs/runs.md has the figures behind `SPARK_FROM_BYTES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Self, TypeVar

from results.judge.jvm import JvmError
from results.judge.session import Spark, SparkError, SparkHandle
from results.store.digests import files_below
from results.store.model import RunResults
from results.store.run_store import RunStore

SPARK_FROM_BYTES = 250_000_000
"""Runs of so many bytes together are judged with Spark without being asked to."""
ALONE_FROM_BYTES = 250_000_000
"""The journal of a run that is no task among others: its keys are. A million operations."""
_TASK_BYTES_MIN = 1_000_000
"""Smaller runs share a task, whose start takes as long as they do."""

_T = TypeVar("_T")
Work = Callable[[Path], str]


class Engine:
    """Judges any number of runs, with one Spark session at most.

    The session starts with the first work that is for Spark: where the user named a master, all
    is. A master that was named and cannot be had is an error. Else `warn` takes one line when
    Spark does not start, or dies; whatever it does, the verdict is that of
    `results.judge.pipeline.judge`. To be made when no node runs (see `results.judge.session`).
    """

    def __init__(self, master: str | None, warn: Callable[[str], None]) -> None:
        self._asked_for = master is not None
        self._spark = Spark(master)
        self._handle: SparkHandle | None = None
        self._dead = False
        self._warn = warn

    def judge(
        self, store: RunStore, *, problems: Sequence[str] = (), untrusted: Collection[str] = ()
    ) -> RunResults:
        """Judge a run as `results.judge.pipeline.judge` does; it raises the same but SparkError."""
        from results.judge.pipeline import judge  # noqa: PLC0415  (imports Arrow, as below)

        def with_spark(handle: SparkHandle) -> RunResults:
            return judge(store, handle, problems=problems, untrusted=untrusted)

        results = self._with_spark(with_spark) if self._asked_for else None
        return results or judge(store, problems=problems, untrusted=untrusted)

    def each_by_itself(self, folders: Sequence[Path], work: Work) -> dict[Path, str]:
        """Do some work for each run in a process of Spark's, as many at a time as it has cores.

        Returns what it gave, for none where that does not pay or Spark died: then, and for runs
        that are missing because they are large, it is for the caller to do. `work` is a function of
        a module that workers have, and reads and writes nothing but the run.
        """
        sizes = {folder: _bytes_of(folder) for folder in folders}
        shared = [folder for folder in folders if _journal_bytes(folder) < ALONE_FROM_BYTES]
        pays = self._asked_for or sum(sizes[f] for f in shared) >= SPARK_FROM_BYTES
        if len(shared) < 2 or not pays or (os.cpu_count() == 1 and not self._asked_for):
            return {}
        tasks = list(_tasks(sorted(shared, key=lambda f: (-sizes[f], f)), sizes))
        places = [[folder.absolute() for folder in task] for task in tasks]

        from results.judge import spark_jobs  # noqa: PLC0415

        def with_spark(handle: SparkHandle) -> list[list[str]]:
            return spark_jobs.spread(
                handle.spark, len(tasks), lambda piece: [work(folder) for folder in places[piece]]
            )

        answers = self._with_spark(with_spark) or []
        return {
            folder: answer
            for task, found in zip(tasks, answers, strict=False)
            for folder, answer in zip(task, found, strict=True)
        }

    def close(self) -> None:
        """End the session, if there is one. Idempotent."""
        self._spark.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _with_spark(self, act: Callable[[SparkHandle], _T]) -> _T | None:
        """Act with the session; None, and a warning, if there is none any more.

        Raises SparkError or JvmError where the user named a master that cannot be had.
        """
        if self._dead:
            return None
        try:
            if self._handle is None:
                self._handle = self._spark.start()
            return act(self._handle)
        except (SparkError, JvmError) as error:
            words = self._spark.last_words() if self._handle is not None else ""
            if self._asked_for and self._handle is None:
                raise
            self._dead, self._handle = True, None
            self._spark.close()
            self._warn(f"WARNING: judging without Spark: {error}{words}")
        return None


def _tasks(folders: Sequence[Path], sizes: dict[Path, int]) -> Iterator[list[Path]]:
    """Put runs that are small together, in the order given."""
    task: list[Path] = []
    for folder in folders:
        task.append(folder)
        if sum(sizes[each] for each in task) >= _TASK_BYTES_MIN:
            yield task
            task = []
    if task:
        yield task


def _bytes_of(folder: Path) -> int:
    """Count the bytes of a run's files, as far as they can be seen."""
    total = 0
    for name in files_below(folder):
        try:
            total += (folder / name).stat().st_size
        except OSError:
            continue  # judging it says what is wrong
    return total


def _journal_bytes(folder: Path) -> int:
    try:
        return RunStore(folder).journal_path.stat().st_size
    except OSError:
        return 0  # as above
