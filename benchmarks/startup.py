"""What a call of the command line costs before it does anything: `python -m benchmarks.startup`.

CPU seconds (user and system, the least of several calls) of commands that have next to nothing to
do, beside what Python and click take alone. Elapsed time is not measured: it is the machine's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
HISTORY = str(ROOT / "tests/data/histories/example.edn")
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import click'": ["-c", "import click"],
    "python -c 'import numpy, pyarrow'": ["-c", "import numpy, pyarrow"],
    "kraftprobe --help": ["--help"],
    "kraftprobe list campaigns": ["list", "campaigns"],
    "kraftprobe check, 10 operations": ["check", HISTORY, "--model", "cas-register"],
}
MAIN = "from harness.cli import main; main(prog_name='kraftprobe')"


def cpu_s(arguments: list[str], repeats: int) -> float:
    """The least CPU time of several calls; raises CalledProcessError."""
    command = [sys.executable, *(arguments if arguments[0] == "-c" else ["-c", MAIN, *arguments])]
    taken = []
    for _ in range(repeats):
        before = os.times()
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        taken.append(
            after.children_user
            - before.children_user
            + after.children_system
            - before.children_system
        )
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    console = Console()
    progress = track(COMMANDS.items(), "calling", console=Console(stderr=True), transient=True)
    seconds = {name: cpu_s(arguments, repeats) for name, arguments in progress}
    python, click, *_ = seconds.values()
    table = Table("command", "CPU s", "of python -c pass", "of import click", box=None)
    for name, value in seconds.items():
        table.add_row(name, f"{value:.2f}", f"{value / python:.1f}", f"{value / click:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
