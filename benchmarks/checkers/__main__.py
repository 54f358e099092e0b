"""`python -m benchmarks.checkers [--quick]`: tables of times, memory and ratios, in one run.

Each history is made once, judged here in a process of its own, then by Porcupine in another; times
are medians of wall and of processor time (Porcupine has several threads; on a machine that others
use as well, wall time says little). Where there is no Go, its columns stay empty.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import linear_regression, median

from benchmarks.checkers import corpus, peer
from benchmarks.checkers.generate import Shape, generate
from benchmarks.checkers.generate_types import generate_typed
from benchmarks.checkers.judge import save
from benchmarks.checkers.rows import GROWTH, TABLE, spread, target_lines
from porcupine_py.columns import Columns
from porcupine_py.search.rules.log import LogColumns


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkers")
    parser.add_argument("--quick", action="store_true", help="a few minutes: the first table only")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for each row")
    parser.add_argument("--memory", type=float, default=6.0, help="GB for Porcupine")
    parser.add_argument("--without-peer", action="store_true", help="do not run Porcupine")
    parser.add_argument("--only", nargs="*", help="names of rows")
    parser.add_argument("--growth", action="store_true", help="the exponents only")
    options = parser.parse_args()
    os.nice(5)
    with tempfile.TemporaryDirectory() as name:
        _report(options, Path(name))


def _report(options: argparse.Namespace, folder: Path) -> None:
    binary = None if options.without_peer or options.growth else peer.build(folder)
    compared = "without Porcupine"
    if binary is not None:
        compared = (
            f"Porcupine {peer.version(folder)}, limits {options.limit:g} s, {options.memory:g} GB"
        )
    print(f"CPython {platform.python_version()}, {os.cpu_count()} cores, {compared}")
    print(f"load average at the start: {peer.load_average():.1f}\n")
    if not options.only and not options.growth:
        _corpus(folder, binary)
    shapes = TABLE if options.quick else spread()
    print(
        "| history | verdict | ms | cpu ms | peak MB | algorithm "
        "| Porcupine | ms | cpu ms | peak MB | ratio | of cpu |"
    )
    print("|---" * 12 + "|")
    rows = {
        shape.name: _row(shape, folder, binary, options)
        for shape in shapes
        if not options.growth and (not options.only or shape.name in options.only)
    }
    growth = {} if options.only else _growth(folder, options, powers=3 if options.quick else 4)
    print("\n| wanted | measured | met |\n|---|---|---|")
    print("\n".join(target_lines(rows, growth)))
    print(f"\nload average at the end: {peer.load_average():.1f}")


def _corpus(folder: Path, binary: Path | None) -> None:
    histories = corpus.histories(folder)
    ours = corpus.ours(histories)
    theirs = corpus.theirs(histories, binary, folder) if binary else {}
    print("| corpus | histories | ms | worst | Porcupine ms | worst | ratio |")
    print("|---|---|---|---|---|---|---|")
    for group in ("etcd", "kv", "all"):
        names = [name for name in ours if name.startswith(group) or group == "all"]
        mine = [ours[name] for name in names]
        line = f"| {group} | {len(names)} | {sum(mine):.1f} | {max(mine):.1f} |"
        if theirs:
            its = [theirs[name] for name in names]
            line += f" {sum(its):.1f} | {max(its):.1f} | {sum(its) / sum(mine):.1f} |"
        print(line)
    print(flush=True)


def _judged(columns: Columns | LogColumns, model: str, folder: Path, limit_s: float) -> dict:
    save(columns, folder / "columns")
    command = [sys.executable, "-m", "benchmarks.checkers.judge", str(folder / "columns")]
    done = subprocess.run(
        [*command, model, str(limit_s)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"judging died: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _row(shape: Shape, folder: Path, binary: Path | None, options: argparse.Namespace) -> dict:
    columns = generate(shape)
    judged = _judged(columns, shape.model, folder, options.limit)
    wall, cpu = median(judged["times_ms"]), median(judged["cpu_ms"])
    known = judged["verdict"] in ("PASS", "FAIL")
    line = f"| {shape.name} | {judged['verdict']} | {wall:.1f} | {cpu:.1f} "
    line += f"| {judged['peak_mb']} | {', '.join(judged['algorithms'])} |"
    ratio = None
    if binary is not None:
        peer.export(columns, folder / "history.txt")
        run = peer.judge(binary, folder / "history.txt", options.limit, options.memory)
        if run.time_ms is not None and run.cpu_ms is not None:
            ratio = run.cpu_ms / cpu if known else None
            line += f" {run.verdict} | {run.time_ms:.1f} | {run.cpu_ms:.1f} | {run.peak_mb} |"
            line += f" {run.time_ms / wall:.1f} | {ratio:.1f} |" if known else " | |"
            line += " DISAGREE" if known and run.verdict != judged["verdict"] else ""
        else:
            line += f" {run.verdict} | | | {run.peak_mb or ''} |"
            late = run.verdict == "?" and known
            line += f" > {1e3 * options.limit / wall:.0f} | |" if late else " | |"
    print(line, flush=True)
    return {"known": known, "cpu": cpu, "peak_mb": judged["peak_mb"], "ratio": ratio}


def _growth(
    folder: Path, options: argparse.Namespace, powers: int
) -> dict[str, tuple[list[float], float]]:
    """Measure (a) to (e): processor times by size, and the exponent, by least squares."""
    print("\n| growth, cpu | " + " | ".join(f"10^{4 + i}" for i in range(powers)) + " | exponent |")
    print("|---" * (powers + 2) + "|")
    found = {}
    for name, shapes in GROWTH.items():
        times = []
        for shape in shapes[:powers]:
            made = generate(shape) if isinstance(shape, Shape) else generate_typed(shape)
            judged = _judged(made, shape.model, folder, options.limit)
            assert judged["verdict"] == "PASS", judged
            assert len(judged["algorithms"]) == 1, judged
            times.append(median(judged["cpu_ms"]))
        sizes = [math.log10(s.operations) for s in shapes[:powers]]
        slope = linear_regression(sizes, [math.log10(t) for t in times]).slope
        shown = " | ".join(f"{t:.1f} ms" for t in times)
        print(f"| {name} ({judged['algorithms'][0]}) | {shown} | {slope:.2f} |", flush=True)
        found[name] = times, slope
    return found


if __name__ == "__main__":
    begun = time.monotonic()
    main()
    print(f"took {time.monotonic() - begun:.0f} s")
