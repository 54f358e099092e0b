"""`python -m benchmarks.alarms`: campaigns on the node as it is, half of them on a busy machine.

Runs campaigns in turns over the backends, each with another seed, workload and set of faults. Every
second one runs beside processes that only burn CPU (eight, or `--burners`). Correct verdicts are
PASS and UNDER-EXERCISED: starved clients may do too little, but a slow machine violates nothing.
Exit code 0 when there was no other verdict.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.interrupt import signals_interrupt

_PROGRAM = (sys.executable, "-c", "from harness.cli import main; main(prog_name='kraftprobe')")
_VERDICTS = {0: "PASS", 4: "UNDER-EXERCISED", 1: "FAIL", 3: "UNKNOWN"}
_RIGHT = {0, 4}
_LOAD = 8
_PROCESSES = "kill,pause,restart"
_LINKS = "partition,loss,delay"
_DISKS = "disk-stall,disk-full,power-loss,torn-write,bit-flip"
_FAULTS = {
    "local": (f"{_PROCESSES},partition", f"{_LINKS},clock-jump", f"{_DISKS},kill", "voters,resign"),
    "netns": (f"{_PROCESSES},{_LINKS}", f"{_DISKS},partition", "clock-skew,snapshot,kill"),
    "docker": (f"{_DISKS},kill", f"{_PROCESSES},partition", f"{_LINKS},clock-jump,voters"),
}
_WORKLOADS = ("register", "append", "set", "topics", "unique-ids", "partitions", "brokers")
_BOUND_S = 420.0
_PLAN = """\
workload = "{workload}"
backend = "{backend}"
nodes = {nodes}
seed = {seed}
duration_s = 25
rate_per_s = 60
concurrency = 12
faults = [{faults}]

[schedule]
quiet_s = [1.0, 1.5]
fault_s = [2.0, 3.0]
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default="local,netns,docker")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="Where the runs stay.")
    parser.add_argument(
        "--burners", type=int, default=_LOAD, help="0 where the machine is busy with other work."
    )
    asked = parser.parse_args()
    backends = asked.backends.split(",")
    verdicts: Counter[tuple[str, str]] = Counter()
    wrong = 0
    with signals_interrupt(), contextlib.ExitStack() as stack:
        if asked.keep:
            asked.keep.mkdir(parents=True, exist_ok=True)
        folder = asked.keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="kraftprobe-alarms-"))
        )
        for number in range(asked.rounds):
            turn, place = divmod(number, len(backends))
            backend = backends[place]
            loaded = (turn + place) % 2 == 1 and asked.burners > 0
            faults = _FAULTS[backend][turn % len(_FAULTS[backend])]
            workload = _WORKLOADS[turn % len(_WORKLOADS)]
            seed = asked.first_seed + number
            plan = folder / f"alarms-{number + 1}.toml"
            plan.write_text(
                _PLAN.format(
                    workload=workload,
                    backend=backend,
                    nodes=3 if turn % 3 else 5,
                    seed=seed,
                    faults=", ".join(f'"{fault}"' for fault in faults.split(",")),
                )
            )
            began = time.monotonic()
            with _load(asked.burners if loaded else 0):
                code, last = _run(folder, plan)
            verdict = _VERDICTS.get(code, f"exit code {code}")
            verdicts[(backend, verdict)] += 1
            wrong += code not in _RIGHT
            print(
                f"{number + 1:3d}  {backend:6} {workload:10} {faults}, seed {seed}, "
                f"{'loaded' if loaded else 'idle'}: {verdict} in "
                f"{time.monotonic() - began:.0f} s{'' if code in _RIGHT else ': ' + last}",
                flush=True,
            )
    for (backend, verdict), count in sorted(verdicts.items()):
        print(f"{backend}: {count} {verdict}")
    return 1 if wrong else 0


def _run(folder: Path, plan: Path) -> tuple[int, str]:
    """Run a campaign as a person would; its exit code and what it said last."""
    words = ("--campaign", str(plan), "--skip-impossible", "--runs", str(folder))
    command = (*_PROGRAM, "run", *words)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as campaign:
        try:
            output, _ = campaign.communicate(timeout=_BOUND_S)
        except BaseException:
            campaign.terminate()  # it stops its nodes, which a kill would leave behind
            raise
    lines = [line.strip() for line in output.splitlines()]
    bad = [line for line in lines if line.startswith(("FAIL", "UNKNOWN", "kraftprobe:"))]
    return campaign.returncode, " | ".join(bad) or "no word"


@contextlib.contextmanager
def _load(count: int) -> Iterator[None]:
    """Keep `count` processes busy."""
    burners = [subprocess.Popen((sys.executable, "-c", "while True: pass")) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
