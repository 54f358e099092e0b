"""`python -m benchmarks.gate`: what the gate says in every situation, and whether it should.

Prints a table of situation, exit code and the gate's sentence; exits 1 if any is not as expected.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gate.bench import Bench
from benchmarks.gate.situations import SITUATIONS


def main() -> int:
    """Try every situation."""
    began_s = time.process_time()
    wrong = []
    print("| situation | exit code | the gate's sentence |\n|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="kraftprobe-gate-bench-") as place:
        bench = Bench(Path(place))
        for situation in SITUATIONS:
            outcome = bench.try_gate(situation)
            sentence = outcome.sentence.replace(place, "").replace("|", "\\|")
            print(f"| {situation.name} | {outcome.exit_code} | {sentence} |")
            if (problem := outcome.problem(situation)) is not None:
                wrong.append(f"{situation.name}: {problem}")
    print(f"\n{len(SITUATIONS)} situations, {time.process_time() - began_s:.0f} s of CPU")
    print("\n".join(f"NOT AS EXPECTED: {line}" for line in wrong) or "all as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
