"""`python -m tests.alterations`: what judging and the gate say of every alteration.

Each run is gated with its old digests, with forged ones (judged again by the gate), and once it was
judged (`tests.alterations.gated`). Prints the table (`--write`: into
benchmarks/RESULTS.md); exits 1 if a verdict is not as expected, after what was said instead.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import page
from tests.alterations.alterations import ALTERATIONS, CASES, RAP
from tests.alterations.gated import complaints
from tests.alterations.runs import copy_of, table, unpack


def main(arguments: Sequence[str]) -> int:
    """Try every alteration."""
    began_s = time.process_time()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="kraftprobe-alterations-") as place:
        stores = {name: unpack(name, Path(place) / name) for name in RAP}
        for number, (alteration, name) in enumerate(CASES):
            run = copy_of(stores[name], Path(place) / str(number))
            found = complaints(run, alteration, judged_by_gate=True)
            wrong += [f"{alteration.name} ({name}): {problem}" for problem in found]
            shutil.rmtree(run.store.folder)
    rows = "\n".join(table(ALTERATIONS))
    print(rows)
    if "--write" in arguments:
        page.write("alterations", rows)
    took_s = time.process_time() - began_s
    print(f"\n{len(CASES)} cases, each gated three times, {took_s:.0f} s of CPU")
    print("\n".join(f"NOT AS EXPECTED: {line}" for line in wrong) or "all as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
