"""`python -m benchmarks.safety`: kill -9 the harness at random moments, clean up, compare.

Each round starts a campaign, kills the harness without warning at a random moment (while it
probes, starts nodes, injects, heals; counted from the first fault in every other round), runs
`kraftprobe cleanup` as a person would, and compares packet filters, queueing, mounts, loop devices,
containers, networks, processes, namespaces and the wall clock with what they were before. Then it
runs `kraftprobe check` on what the run had stored: whatever nodes did while their harness was dead
and while `cleanup` took their world away, the verdict must not be FAIL, nor PASS of a run without
an end, and every event whose line was whole in the journal must have been judged. Exit code 0 when
every round left the machine as it was, lost nothing and none failed.

As root it first moves into network, mount and process namespaces of its own, so that all there is
its own and the comparison is strict, not only of what carries a label. It stays outside with
`--shared`, without root, and for backend docker, with its engine there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.safety.traces import CLOCK_TOLERANCE_S, Ours, clock_offset_s, snapshot

_PROGRAM = (sys.executable, "-c", "from harness.cli import main; main(prog_name='kraftprobe')")
_PRIVATE = "KRAFTPROBE_SAFETY_PRIVATE"
_BEGIN_S = 120.0
_SETTLE_S = 20.0
"""How long what is about to end by itself may take: a JVM that has lost its parent."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="local")
    parser.add_argument("--campaign", default="torture")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--within", type=float, default=20.0, help="Seconds; the latest moment.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shared", action="store_true")
    asked = parser.parse_args()
    private = os.environ.get(_PRIVATE) == "1"
    if not (private or asked.shared or asked.backend == "docker" or os.geteuid() != 0):
        return _in_namespaces()
    if private:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    moments = random.Random(asked.seed)
    clean = 0
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="kraftprobe-safety-") as place:
        folder = Path(place)
        _cleanup(folder)
        ours = Ours()
        before, clock_s = snapshot(folder, ours, alone=private), clock_offset_s()
        for number in range(1, asked.rounds + 1):
            moment_s = moments.uniform(0.2, asked.within)
            run, phase = _kill_a_run(folder, asked, number, moment_s, ours)
            lines = [] if run is None else _whole_lines(run)
            cleaned = _cleanup(folder)
            difference = _difference(folder, ours, before, alone=private)
            moved_s = clock_offset_s() - clock_s
            if abs(moved_s) > CLOCK_TOLERANCE_S:
                difference.append(f"clock: moved by {moved_s:+.3f} s")
            verdict = "no run yet" if run is None else _verdict(run)
            difference += [] if run is None else [*_bereft(run), *_lost(run, lines, verdict)]
            verdicts[verdict.partition(":")[0]] += 1
            clean += not difference
            state = "as before" if not difference else "DIFFERENT: " + "; ".join(difference)
            print(
                f"{number:3d}  killed after {moment_s:5.1f} s ({phase}), "
                f"{cleaned} things cleaned: {state}; check: {verdict}",
                flush=True,
            )
    print(f"{asked.backend}, {asked.campaign}: the machine was as before {clean} of {asked.rounds}")
    counted = ", ".join(f"{name} {count}" for name, count in sorted(verdicts.items()))
    print(f"verdicts of what was stored: {counted}")
    return 0 if clean == asked.rounds and not verdicts["FAIL"] else 1


def _in_namespaces() -> int:
    """Run this again where all that can be seen is its own."""
    unshare = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
    again = (sys.executable, "-m", "benchmarks.safety", *sys.argv[1:])
    return subprocess.run(
        (*unshare, *again), env={**os.environ, _PRIVATE: "1"}, check=False
    ).returncode


def _kill_a_run(
    folder: Path, asked: argparse.Namespace, number: int, moment_s: float, ours: Ours
) -> tuple[Path | None, str]:
    """Start a campaign, kill its harness and nothing else; its folder and the phase of the kill."""
    earlier = set(folder.glob("runs/*/*"))
    with (folder / f"{number}.log").open("wb") as log:
        words = ("run", "--campaign", asked.campaign, "--backend", asked.backend)
        sizes = ("--nodes", str(asked.nodes), "--seed", str(number), "--rate", "60")
        rest = ("--concurrency", "9", "--skip-impossible", "--runs", str(folder / "runs"))
        process = subprocess.Popen(
            (*_PROGRAM, *words, *sizes, *rest), stdout=log, stderr=log, start_new_session=True
        )
        ours.harnesses.add(str(process.pid))
        if number % 2 == 0:
            _wait_for_faults(folder, earlier)
        time.sleep(moment_s)
        assert process.poll() is None, (folder / f"{number}.log").read_text()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    ours.note_bridges()
    begun = set(folder.glob("runs/*/*")) - earlier
    if not begun:
        return None, "probing"
    run = begun.pop()
    return run, _last_phase(run / "history.jsonl")


def _wait_for_faults(folder: Path, earlier: set[Path]) -> None:
    deadline = time.monotonic() + _BEGIN_S
    while time.monotonic() < deadline:
        for run in set(folder.glob("runs/*/*")) - earlier:
            journal = run / "history.jsonl"
            if journal.exists() and '"phase":"inject"' in journal.read_text():
                return
        time.sleep(0.1)


def _last_phase(journal: Path) -> str:
    text = journal.read_text() if journal.exists() else ""
    name = text.rpartition('"name":"')[2].partition('"')[0] or "start"
    faults = text.count('"phase":"inject"') // 2
    return f"{name}, {faults} faults injected"


def _cleanup(folder: Path) -> int:
    """Run the command as a person would; how many things it said that it took away."""
    command = (*_PROGRAM, "cleanup", "--runs", str(folder / "runs"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return sum(not line.startswith("nothing") for line in done.stdout.splitlines())


def _bereft(run: Path) -> list[str]:
    """Nodes that saw their disk go (ENOTCONN): it was taken away before they were dead."""
    logs = sorted(run.glob("nodes/*/stdout.log"))
    return [
        f"{log.parent.name} saw its disk go" for log in logs if b"Errno 107" in log.read_bytes()
    ]


def _whole_lines(run: Path) -> list[str]:
    path = run / "history.jsonl"
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return text.rpartition("\n")[0].splitlines()


def _lost(run: Path, lines: list[str], verdict: str) -> list[str]:
    """What became of the events whose `lines` were whole when the harness was killed."""
    wrong = [] if _whole_lines(run)[: len(lines)] == lines else ["the journal's lines changed"]
    results = run / "results.json"
    judged = json.loads(results.read_text())["statistics"]["events"] if results.exists() else 0
    if judged < len(lines):
        wrong.append(f"{len(lines)} events recorded, {judged} judged")
    ended = any(json.loads(line)["f"] == "evidence" for line in lines)
    return [*wrong, "PASS of a run without an end"] if verdict == "PASS" and not ended else wrong


def _verdict(run: Path) -> str:
    """Judge what a killed run stored, as a person would; of a FAIL also why."""
    done = subprocess.run(
        (*_PROGRAM, "check", str(run)), capture_output=True, text=True, check=False
    )
    names = {0: "PASS", 1: "FAIL", 3: "UNKNOWN", 4: "UNDER-EXERCISED"}
    lines = (done.stdout + done.stderr).splitlines()
    if done.returncode == 1:
        return "FAIL: " + " | ".join(line.strip() for line in lines if line.strip())
    return names.get(done.returncode, f"exit code {done.returncode}: {' | '.join(lines[-2:])}")


def _difference(folder: Path, ours: Ours, before: set[str], *, alone: bool) -> list[str]:
    """What is there and was not, and the other way round, once all has settled."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        now = snapshot(folder, ours, alone=alone)
        if now == before or time.monotonic() > deadline:
            return [f"+ {thing}" for thing in sorted(now - before)] + [
                f"- {thing}" for thing in sorted(before - now)
            ]
        time.sleep(0.25)


if __name__ == "__main__":
    sys.exit(main())
