"""The ways to judge stored runs, each a program of its own so that it can be measured from outside.

    python -m benchmarks.pipeline.ways loop|processes|spark FOLDER...

It prints the verdicts, how many seconds it took, without what it imported before, and how many of
them the checks took, added up.
"""

from __future__ import annotations

import collections
import json
import multiprocessing
import sys
import time
from pathlib import Path

from results.judge.engine import Engine
from results.judge.pipeline import judge
from results.store.model import RunResults
from results.store.run_store import RunStore

WORKERS = 2


def judged(folder: Path) -> str:
    """Judge one run and return its verdict, and how many seconds its checks took."""
    return _said(judge(RunStore(folder)))


def _said(results: RunResults) -> str:
    return f"{results.status.value} {sum(results.judging['checks_s']):.6f}"


def loop(folders: list[Path]) -> list[str]:
    return [judged(folder) for folder in folders]


def processes(folders: list[Path]) -> list[str]:
    largest_first = sorted(folders, key=lambda f: -(f / "history.jsonl").stat().st_size)
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        return pool.map(judged, largest_first, chunksize=1)


def spark(folders: list[Path]) -> list[str]:
    def fail(line: str) -> None:
        raise SystemExit(line)

    with Engine(f"local[{WORKERS}]", fail) as engine:
        done = engine.each_by_itself(folders, judged)
        rest = [_said(engine.judge(RunStore(f))) for f in folders if f not in done]
        return [*done.values(), *rest]


def main() -> None:
    way = {"loop": loop, "processes": processes, "spark": spark}[sys.argv[1]]
    began = time.monotonic()
    answers = [answer.split() for answer in way([Path(name) for name in sys.argv[2:]])]
    seconds = time.monotonic() - began
    verdicts = collections.Counter(verdict for verdict, _ in answers)
    checks_s = sum(float(checks_s) for _, checks_s in answers)
    print(json.dumps({"seconds": seconds, "checks_s": checks_s, "verdicts": verdicts}))


if __name__ == "__main__":
    sys.modules["benchmarks.pipeline.ways"] = sys.modules["__main__"]
    main()
