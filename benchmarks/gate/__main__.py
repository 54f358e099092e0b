"""`python -m benchmarks.gate`: what the gate says in every situation, and whether it should.

Prints a table of situation, exit code and the gate's sentence; exits 1 if any is not as expected.
With `--write` it also writes the page that keeps the table, docs/gate-situations.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gate.bench import Bench, Situation
from benchmarks.gate.policies import POLICIES
from benchmarks.gate.situations import SITUATIONS

PAGE = Path(__file__).parents[2] / "docs" / "gate-situations.md"
_PARTS = (("With a policy", POLICIES), ("Runs and batches alone", SITUATIONS))
_HEAD = """\
# What the gate says in every situation

Written by `python -m benchmarks.gate --write`; `tests/results/test_release_gate.py` runs each
situation and holds its row to what stands here. [gate.md](gate.md) explains the words. Digests,
ages and lists of known names, which change by themselves, are left out. Exit codes:
0 PASS, 1 FAIL, 2 usage, 3 UNKNOWN, 4 UNDER-EXERCISED.
"""
_COLUMNS = "| situation | exit code | the gate's sentence |\n|---|---|---|\n"


def main(arguments: Sequence[str]) -> int:
    """Try every situation."""
    began_s = time.process_time()
    wrong: list[str] = []
    page = _HEAD
    with tempfile.TemporaryDirectory(prefix="kraftprobe-gate-bench-") as place:
        bench = Bench(Path(place))
        for title, situations in _PARTS:
            rows = [_tried(bench, situation, wrong) for situation in situations]
            page += f"\n## {title}\n\n{_COLUMNS}" + "".join(f"{row}\n" for row in rows)
    print(page)
    if "--write" in arguments:
        PAGE.write_text(page)
    count = sum(len(situations) for _, situations in _PARTS)
    print(f"{count} situations, {time.process_time() - began_s:.0f} s of CPU")
    print("\n".join(f"NOT AS EXPECTED: {line}" for line in wrong) or "all as expected")
    return 1 if wrong else 0


def _tried(bench: Bench, situation: Situation, wrong: list[str]) -> str:
    outcome = bench.try_gate(situation)
    if (problem := outcome.problem(situation)) is not None:
        wrong.append(f"{situation.name}: {problem}")
    return outcome.row(situation)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
