"""Judging a stored run as `check` does: in this process, or in another such as a worker of Spark.

From elsewhere comes a text: exit code, both outputs, and the digest of the code that made them. The
files (results, report, tables) the run has by then.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from harness.errors import BatchError, UsageError
from harness.judge.run_targets import act_on
from harness.judge.verdict_output import judge_and_report
from harness.source_digest import source_digest
from harness.terminal.answers import Shown
from results.store.model import RunResults
from results.store.run_store import RunStore


def judge_stored(
    folder: Path, name: str, judge: Callable[..., RunResults], shown: Shown = Shown.LINES
) -> int:
    """Judge a run and report; return the exit code. `name`: of the run, before each line."""
    store = RunStore(folder)
    _complete_evidence(store, prefix_of(name))
    # It imports what nodes are made of, which judging a file does without.
    from harness.evidence.recomputation import judge_again  # noqa: PLC0415

    again = partial(judge_again, judge=judge)
    return judge_and_report(store, again, with_report=True, prefix=prefix_of(name), shown=shown)


def prefix_of(name: str) -> str:
    """Return what each line about a target of this name begins with."""
    return f"{name}: " if name else ""


def judged_elsewhere(folder: Path, shown: Shown = Shown.LINES) -> str:
    """Judge one run among several, and return what that would print."""
    from results.judge.pipeline import judge  # noqa: PLC0415  (imports Arrow)

    out, err = io.StringIO(), io.StringIO()
    coloured = click.Context(click.Command("check"), color=True)
    with coloured.scope(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = act_on(folder, partial(judge_stored, judge=judge, shown=shown))
    answer = {"code": code, "out": out.getvalue(), "err": err.getvalue()}
    return json.dumps({**answer, "source": source_digest()})


def print_judged(answer: str) -> int:
    """Print what was printed elsewhere, and return its exit code.

    Raises BatchError when other code judged.
    """
    found = json.loads(answer)
    if found["source"] != source_digest():
        raise BatchError(
            f"a worker of Spark has other code ({found['source']}) than this "
            f"({source_digest()}): install the same Kraftprobe on all of them"
        )
    click.echo(found["out"], nl=False)
    click.echo(found["err"], nl=False, err=True)
    return int(found["code"])


def _complete_evidence(store: RunStore, prefix: str) -> None:
    """Decode the logs of a run whose harness was killed before it could.

    Stored evidence is never replaced: a second judgement must see the same evidence.
    """
    missing = tuple(n for n in store.node_names(store.plan()) if not store.has_log(n))
    if not missing:
        return

    for problem in complete(store, missing):
        click.echo(f"{prefix}evidence: {problem}", err=True)


def cleanup_of(folder: Path) -> str:
    """Return the command that ends what a run left, wherever its folder is."""
    folder = folder.resolve()
    return f"kraftprobe cleanup --runs {shlex.quote(str(folder))} --run {shlex.quote(folder.name)}"


def complete(store: RunStore, nodes: tuple[str, ...]) -> list[str]:
    """Store these nodes' evidence; returns one line for each node without any or with damage.

    Raises UsageError while nodes of the run are alive: their logs still grow.
    """
    from cluster.backends.cleanup import find_leftovers  # noqa: PLC0415  (a file has no nodes)
    from harness.evidence import node_disks  # noqa: PLC0415

    run = store.folder.resolve().name
    if find_leftovers(run_id=run):
        raise UsageError(f"nodes of {run} still run; end them first: {cleanup_of(store.folder)}")
    node_disks.conceal(store, nodes)
    return node_disks.collect(store, nodes)
