"""What judges stored runs: this process, or Spark where that pays; and this process if Spark dies.

Checks of single keys are all that Spark can spread; the rest is one pass over what is in memory
already. On two cores it takes more processor time than a loop at every size that was measured: 21 s
against 2 for 15,000 operations, 129 against 74 for a million. There the two cores of a `local[*]`
end about when one core with the loop does, and any further core is a gain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from results.jvm import JvmError
from results.model import RunResults
from results.pipeline import judge
from results.session import Spark, SparkError, SparkHandle
from results.store import RunStore

SPARK_FROM_OPERATIONS = 1_000_000
"""A run of so many operations is judged with Spark without being asked to."""

_CHUNK_BYTES = 1 << 20


class Engine:
    """Judges any number of runs, with one Spark session at most.

    The session starts with the first run that is for Spark: where the user named a master, each
    run is. `warn` takes one line when Spark does not start, or dies; whatever it does, the verdict
    is that of `results.pipeline.judge`. To be made when no node runs (see `results.session`).
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
        """Judge a run as `results.pipeline.judge` does; it raises the same but SparkError."""
        handle = self._session_for(store)
        if handle is None:
            return judge(store, problems=problems, untrusted=untrusted)
        try:
            return judge(store, handle, problems=problems, untrusted=untrusted)
        except SparkError as error:
            self._give_up(f"{error}{self._spark.last_words()}")
        return judge(store, problems=problems, untrusted=untrusted)

    def close(self) -> None:
        """End the session, if there is one. Idempotent."""
        self._spark.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _session_for(self, store: RunStore) -> SparkHandle | None:
        if self._dead:
            return None
        if not self._asked_for and _operations(store.journal_path) < SPARK_FROM_OPERATIONS:
            return None
        if self._handle is None:
            try:
                self._handle = self._spark.start()
            except (SparkError, JvmError) as error:
                self._give_up(str(error))
        return self._handle

    def _give_up(self, reason: str) -> None:
        self._dead, self._handle = True, None
        self._spark.close()
        self._warn(f"WARNING: judging without Spark: {reason}")


def _operations(journal: Path) -> int:
    """Count the operations of a journal, nearly: each has two lines."""
    try:
        with journal.open("rb") as lines:
            return (
                sum(chunk.count(b"\n") for chunk in iter(lambda: lines.read(_CHUNK_BYTES), b""))
                // 2
            )
    except OSError:
        return 0  # judging it says what is wrong
