"""A session that starts while the campaign still runs, so that the verdict need not wait for it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

from results.jvm import JvmError
from results.session import Spark, SparkError, SparkHandle, first_line

_STOP_TIMEOUT_S = 10.0


class WarmSession:
    """A session that starts in the background while the campaign still runs.

    The warm-up runs a tiny job through the Python workers, so that the first real job finds their
    interpreters, pandas and Arrow loaded. Nothing is raised until `get`.
    """

    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self._handle: SparkHandle | None = None
        self._error: Exception | None = None
        # A daemon: a Spark that hangs while starting must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="spark-start", daemon=True)
        self._thread.start()

    def get(self) -> SparkHandle:
        """Wait until the session is warm. Raises SparkError or JvmError with one line."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        if self._handle is None:
            raise SparkError("the Spark session was closed while it started")
        return self._handle

    def close(self) -> None:
        """End session and JVM, also while they start. Idempotent."""
        self._spark.close()
        self._thread.join(_STOP_TIMEOUT_S)
        self._spark.close()  # what the thread still made meanwhile

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            handle = self._spark.start()
            warm_up(handle.spark)
        except Exception as error:  # noqa: BLE001  (handed to the thread that asks)
            self._error = (
                error if isinstance(error, JvmError | SparkError) else _as_spark_error(error)
            )
            return
        self._handle = handle


def warm_up(spark: Any) -> None:
    """Run a tiny job of the shape that the pipeline's jobs have."""
    parallelism = spark.sparkContext.defaultParallelism
    numbers = spark.range(0, 4 * parallelism, 1, parallelism)
    numbers.groupBy(numbers.id % parallelism).applyInArrow(_same, "id long").count()


def _same(table: Any) -> Any:
    import checkers.registry  # noqa: F401, PLC0415  (the point: the worker has loaded it then)

    return table


def _as_spark_error(error: Exception) -> SparkError:
    return SparkError(f"Spark did not start: {first_line(error)}")
