"""`python -m tests.gate`: what the gate says in every situation, and whether it should.

Prints a table of situation, exit code and the gate's sentence; exits 1 if any is not as expected.
With `--write` it also writes the table into benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks import page
from tests.gate.bench import Bench, Situation
from tests.gate.policies import POLICIES
from tests.gate.situations import SITUATIONS

_PARTS = (("With a policy", POLICIES), ("Runs and batches alone", SITUATIONS))
_COLUMNS = "| situation | exit code | the gate's sentence |\n|---|---|---|\n"


def main(arguments: Sequence[str]) -> int:
    """Try every situation."""
    began_s = time.process_time()
    wrong: list[str] = []
    times: list[tuple[float, float, str]] = []
    tables: list[str] = []
    with tempfile.TemporaryDirectory(prefix="kraftprobe-gate-bench-") as place:
        bench = Bench(Path(place))
        for title, situations in _PARTS:
            rows = [_tried(bench, situation, wrong, times) for situation in situations]
            tables.append(f"### {title}\n\n{_COLUMNS}" + "\n".join(rows))
    text = "\n\n".join(tables)
    click.echo(text)
    if "--write" in arguments:
        page.write("gate", text)
    count = sum(len(situations) for _, situations in _PARTS)
    click.echo(f"{count} situations, {time.process_time() - began_s:.0f} s of CPU; the longest:")
    for took_s, cpu_s, name in sorted(times, reverse=True)[:5]:
        click.echo(f"{took_s:.1f} s ({cpu_s:.1f} s of CPU): {name}")
    click.echo("\n".join(f"NOT AS EXPECTED: {line}" for line in wrong) or "all as expected")
    return 1 if wrong else 0


def _tried(
    bench: Bench, situation: Situation, wrong: list[str], times: list[tuple[float, float, str]]
) -> str:
    outcome = bench.try_gate(situation)
    times.append((outcome.took_s, outcome.cpu_s, situation.name))
    if (problem := outcome.problem(situation)) is not None:
        wrong.append(f"{situation.name}: {problem}")
    return outcome.row(situation)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
