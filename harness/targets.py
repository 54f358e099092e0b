"""Arguments of commands on stored runs: run folders, their parents, and batches of seeds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from harness.errors import EXIT_USAGE, UsageError, is_expected, one_line

_RUN_MARKS = ("plan.json", "history.jsonl", "results.json", "digests.jsonl", "nodes")
"""A folder with any of these is a run's, so that a damaged run is reported, not skipped."""
BATCH_MARK = "batch.json"
_DEPTH_MAX = 4


def is_run(folder: Path) -> bool:
    """Whether a folder is, or was, that of one run."""
    return any((folder / name).exists() for name in _RUN_MARKS)


def is_batch(folder: Path) -> bool:
    """Whether a folder is that of a batch of simulated seeds."""
    return (folder / BATCH_MARK).exists()


def find_runs(targets: Sequence[Path]) -> list[Path]:
    """List the runs and batches at the targets, in order, with repetitions.

    A folder that is neither, such as one of a campaign, means all that are below it. Raises
    UsageError for a folder without any.
    """
    found: list[Path] = []
    for target in targets:
        if not target.exists():
            raise UsageError(f"{target}: there is no such folder")
        if not target.is_dir():
            raise UsageError(f"{target}: this is a file; give the folder of a run or a campaign")
        below = list(_below(target, 0))
        if not below:
            raise UsageError(f"{target}: there are no runs in it")
        found += below
    return found


def each_once(folders: Sequence[Path]) -> list[Path]:
    """Drop repetitions of a folder, by whatever path it was named."""
    return list({folder.resolve(): folder for folder in reversed(folders)}.values())[::-1]


def _below(folder: Path, depth: int) -> Iterator[Path]:
    if is_batch(folder) or is_run(folder):
        yield folder
        return
    if depth < _DEPTH_MAX and (depth == 0 or not folder.is_symlink()):
        for entry in sorted(folder.iterdir()):
            if entry.is_dir():
                yield from _below(entry, depth + 1)


def for_each(targets: Sequence[Path], act: Callable[[Path, str], int]) -> int:
    """Act on each target; return the exit code of the worst: 1, then 2, 3, 4, 0.

    `act` gets the target's name for its lines, empty for a single target. With several targets, an
    expected error of one is reported on stderr and does not stop the others.
    """
    if len(targets) == 1:
        return act(targets[0], "")
    codes = [act_on(target, act) for target in targets]
    return min((code for code in codes if code), default=0)


def act_on(target: Path, act: Callable[[Path, str], int]) -> int:
    """Act on one target among several: an expected error is reported and is its exit code."""
    name = name_of(target)
    try:
        return act(target, name)
    except Exception as error:
        if not is_expected(error):
            raise
        click.echo(f"kraftprobe: {name}: {one_line(error)}", err=True)
        return EXIT_USAGE


def name_of(path: Path) -> str:
    """Name a run by its campaign's folder and its own, a file by its path."""
    if not path.is_dir():
        return str(path)
    return "/".join(Path(os.path.abspath(path)).parts[-2:])  # noqa: PTH100  (links keep their names)
