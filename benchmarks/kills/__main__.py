"""`python -m benchmarks.kills`: kill -9 of the harness at random moments of a campaign.

For each backend a campaign runs to its end once, which gives its length. Then it is begun again and
again, and its harness killed at a moment drawn from each of as many equal parts of that length.
After each kill `cleanup` must leave the machine as it was, and `check` must find every event whose
line was whole in the journal: the journal may only have grown, by nothing but whole lines, and an
interrupted run must not PASS. Run nothing else of Kraftprobe meanwhile: it would count as left.
Exit code 0 when nothing was lost or left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kills.machine import what_is_there
from harness.interrupt import signals_interrupt

_PROGRAM = (sys.executable, "-c", "from harness.cli import main; main(prog_name='kraftprobe')")
_FAULTS = {
    "local": '"kill", "pause", "partition"',
    "netns": '"kill", "partition", "delay", "disk-stall", "disk-full"',
    "docker": '"kill", "partition", "loss", "disk-stall", "clock-skew"',
}
_PLAN = """\
campaign = "killed"
workload = "register"
backend = "{backend}"
nodes = 3
duration_s = 12
rate_per_s = 60
concurrency = 8
faults = [{faults}]

[schedule]
quiet_s = [0.3, 0.6]
fault_s = [0.8, 1.2]

[expectations]
min_operations = 20
"""
_BOUND_S = 300.0
_SETTLES_S = 15.0
"""How long the kernel and the engine may take to let go of what was removed."""
_RIGHT = {0: "PASS", 3: "UNKNOWN", 4: "UNDER-EXERCISED"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one killed campaign."""

    events: int
    """Whole lines of the journal at the kill."""
    verdict: str
    wrong: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default="local,netns,docker")
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    wrong = 0
    with signals_interrupt(), tempfile.TemporaryDirectory(prefix="killed-runs-") as place:
        # The campaigns' own folder for temporary files, of which nothing may be left.
        os.environ["TMPDIR"] = tempfile.tempdir = str(Path(place) / "tmp")
        Path(tempfile.tempdir).mkdir()
        for backend in asked.backends.split(","):
            plan = Path(place) / f"{backend}.toml"
            plan.write_text(_PLAN.format(backend=backend, faults=_FAULTS[backend]))
            before = what_is_there()
            began = time.monotonic()
            code = _campaign(plan, Path(place) / f"{backend}-whole").wait(_BOUND_S)
            length_s = time.monotonic() - began
            print(
                f"{backend}: a whole campaign takes {length_s:.1f} s, exit code {code}", flush=True
            )
            if code not in _RIGHT:
                print(f"{backend}: nothing is killed, as the campaign does not run here")
                wrong += 1
                continue
            verdicts: Counter[str] = Counter()
            for number in range(asked.moments):
                moment_s = length_s * (number + draw.random()) / asked.moments
                outcome = _killed(plan, Path(place) / f"{backend}-{number}", moment_s, before)
                verdicts[outcome.verdict] += 1
                wrong += bool(outcome.wrong)
                print(
                    f"  {backend:6} killed at {moment_s:5.1f} s: {outcome.events:5d} events kept, "
                    f"{outcome.verdict}{''.join(f'; WRONG: {it}' for it in outcome.wrong)}",
                    flush=True,
                )
            counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
            print(f"{backend}: {asked.moments} kills: {counts}", flush=True)
    return 1 if wrong else 0


def _campaign(plan: Path, runs: Path) -> subprocess.Popen[bytes]:
    words = ("run", "--campaign", str(plan), "--seed", "3", "--runs", str(runs))
    return subprocess.Popen(
        (*_PROGRAM, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _kraftprobe(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*_PROGRAM, *words), capture_output=True, text=True, timeout=_BOUND_S, check=False
    )


def _killed(plan: Path, runs: Path, moment_s: float, before: frozenset[tuple[str, str]]) -> Outcome:
    campaign = _campaign(plan, runs)
    try:
        campaign.wait(moment_s)
    except subprocess.TimeoutExpired:
        campaign.kill()
        campaign.wait()
    kept = {path.parent: _whole_lines(path) for path in runs.glob("*/*/history.jsonl")}
    wrong = _cleaned(runs, before)
    verdict = "nothing recorded"
    for run, lines in kept.items():
        verdict, found = _checked(run, lines)
        wrong += found
    return Outcome(sum(map(len, kept.values())), verdict, tuple(wrong))


def _cleaned(runs: Path, before: frozenset[tuple[str, str]]) -> list[str]:
    wrong = []
    done = _kraftprobe("cleanup", "--runs", str(runs))
    if done.returncode or "Traceback" in done.stderr:
        wrong.append(f"cleanup exits with {done.returncode}: {done.stderr.strip()[-200:]}")
    deadline = time.monotonic() + _SETTLES_S
    while (left := what_is_there() - before) and time.monotonic() < deadline:
        time.sleep(0.5)
    wrong += [f"left behind: {kind} {name}" for kind, name in sorted(left)]
    return wrong


def _checked(run: Path, lines: list[str]) -> tuple[str, list[str]]:
    wrong = []
    done = _kraftprobe("check", str(run))
    verdict = _RIGHT.get(done.returncode, f"exit code {done.returncode}")
    if "Traceback" in done.stderr:
        wrong.append(f"check: {done.stderr.strip()[-200:]}")
    if _whole_lines(run / "history.jsonl")[: len(lines)] != lines:
        wrong.append("check has changed the journal")
    if not lines and done.returncode == 2:
        return "nothing recorded", wrong  # said in one line
    if done.returncode not in _RIGHT:
        return verdict, [*wrong, (done.stdout + done.stderr).strip()[-300:]]
    results = json.loads((run / "results.json").read_text())
    events = [json.loads(line) for line in lines]
    if results["statistics"]["events"] != len(events):
        wrong.append(f"{len(events)} events recorded, {results['statistics']['events']} judged")
    ended = any(event["f"] == "evidence" for event in events)
    if not ended and done.returncode == 0:
        wrong.append("PASS of a journal that has no end")
    return verdict, wrong


def _whole_lines(path: Path) -> list[str]:
    whole, _, _ = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    return whole.splitlines()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
