"""Arguments of commands on stored runs: run folders, their parents, and batches of seeds."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from harness.errors import EXIT_USAGE, UsageError, is_expected, one_line
from results.store.folders import Walk, walk


def find_runs(targets: Sequence[Path]) -> list[Path]:
    """List the runs and batches at the targets, in order, with repetitions.

    What was not looked into is named on stderr. Raises UsageError as `walk_targets`, and where
    there is nothing else.
    """
    found = walk_targets(targets)
    report_unread(found)
    if not found.runs:
        raise UsageError(f"{targets[0]}: there are no runs in it but what was not looked into")
    return found.runs


def report_unread(found: Walk) -> None:
    """Name on stderr what was not looked into: a run may lie behind it."""
    for path, what in found.unread:
        click.echo(f"kraftprobe: {path}: {what}: not looked into", err=True)


def walk_targets(targets: Sequence[Path]) -> Walk:
    """Look into targets and all that is below them: runs, batches, what was not looked into.

    Raises UsageError for a target that is no folder, or in which there is no run.
    """
    for target in targets:
        if not target.exists():
            raise UsageError(f"{target}: there is no such folder")
        if not target.is_dir():
            raise UsageError(f"{target}: this is a file; give the folder of a run or a campaign")
    found = walk(targets)
    places = [*found.runs, *(path for path, _ in found.unread)]
    for target in targets:
        if not any(place == target or target in place.parents for place in places):
            raise UsageError(f"{target}: there are no runs in it")
    return found


def each_once(folders: Sequence[Path]) -> list[Path]:
    """Drop repetitions of a folder, by whatever path it was named."""
    # Not Path.resolve, which raises RuntimeError at links in a circle before Python 3.13.
    places = {os.path.realpath(folder): folder for folder in reversed(folders)}
    return list(places.values())[::-1]


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
