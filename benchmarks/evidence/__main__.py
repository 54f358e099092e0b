"""`python -m benchmarks.evidence`: what judging says of every alteration, and whether it should.

Prints the table of docs/evidence.md; exits 1 if a verdict is not as expected, after what was said
instead.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from benchmarks.evidence.alterations import ALTERATIONS, CASES, RAP
from benchmarks.evidence.runs import copy_of, problem_of, read_text, table, unpack


def main() -> int:
    """Try every alteration."""
    began_s = time.process_time()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="kraftprobe-alterations-") as place:
        stores = {name: unpack(name, Path(place) / name) for name in RAP}
        for number, (alteration, name) in enumerate(CASES):
            run = copy_of(stores[name], Path(place) / str(number))
            alteration.change(run)
            results = run.judged()
            problem = problem_of(results, alteration)
            if problem is not None:
                wrong.append(f"{alteration.name} ({name}): {problem}\n{read_text(results)}")
    print("\n".join(table(ALTERATIONS)))
    print(f"\n{len(CASES)} cases, {time.process_time() - began_s:.0f} s of CPU")
    print("\n".join(f"NOT AS EXPECTED: {line}" for line in wrong) or "all as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
