"""`bisect`: which releases of Kafka's raft module have the finding of a red plan."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import click

from checkers.verdict import EXIT_CODES, Status
from cluster.backends.sim.kafka.classes import java_command
from cluster.systems import kafka_raft
from cluster.systems.kafka.installation import raft_version
from cluster.systems.kinds import SystemRequest
from harness.campaigns import error_origin, read_document
from harness.commands.options import (
    FILE,
    Command,
    Number,
    absolute_builds,
    number_option,
    shown_options,
)
from harness.commands.shrink import time_option
from harness.commands.sim import simulated_plan
from harness.errors import UsageError
from harness.plan.plan import Plan
from harness.plan.system_request import request_of
from harness.signals.interrupt import stopping
from harness.sim.runner import run
from harness.sim.shrink.bisect import Bisection, Tried, finding
from harness.terminal.answers import Shown, answer
from harness.terminal.progress import progress_bar


@click.command(cls=Command)
@click.argument("file", type=FILE)
@click.option(
    "--kafka-versions",
    "versions",
    required=True,
    metavar="V,V,...",
    help="The releases to look at, or folders of unpacked builds, beside that of the plan.",
)
@number_option(
    "--error",
    Number(1e-6, 0.5),
    0.01,
    "P",
    "Most probability of an answer that is wrong by chance.",
)
@time_option(600.0, "Seconds after which the search ends, whatever is known.")
@shown_options(
    json="Print what each release has as one document.",
    quiet="Print the first release that has it, or nothing.",
)
def bisect(file: Path, versions: str, error: float, limit_s: float, shown: Shown) -> int:
    """Find the first release with the violation of a stored plan, and the first without.

    For plans of system kafka-raft. Ctrl-C ends the search with what is known.

    Exit code: 0 the answer is sure but for the error, 3 not in the time, 2 usage, 130 interrupted.
    """
    with error_origin(file):
        plan = simulated_plan(read_document(file))
    releases = _releases(plan, versions)
    began = time.monotonic()
    if shown is Shown.LINES:
        click.echo(f"playing {file} on {_release(plan)}", err=True)
    played, result = run(plan)
    violation = next(iter(result.violations), None)
    if violation is None:
        raise UsageError(f"{file}: this plan violates nothing on {_release(plan)}")
    end_ms = played.fault_phase_ms + 1000.0 * plan.duration_s
    is_early = 0.0 < violation.at_ms < end_ms
    state = Bisection(plan, finding(violation), releases, error, is_early)
    stopped = Event()

    def share_of_time() -> float:
        return 1.0 if stopped.is_set() else (time.monotonic() - began) / limit_s

    with progress_bar("bisecting", limit_s, shown) as bar, stopping(stopped.set):

        def report(tried: Tried) -> None:
            bar.at(min(limit_s, time.monotonic() - began), _line(tried))

        state.search(share_of_time, report)
        document = _document(state, violation.explanation, time.monotonic() - began)
        answer(shown, document, _lines(state), [state.first_with or ""])
    return EXIT_CODES[Status.PASS if state.is_sure else Status.UNKNOWN]


def _releases(plan: Plan, versions: str) -> Sequence[str]:
    """Return the releases, oldest first, each ready to run. Raises UsageError, SettingError."""
    if plan.system != kafka_raft.NAME:
        raise UsageError(f"bisect is for plans of system {kafka_raft.NAME}, not {plan.system}")
    if len(kafka_raft.runs_of(request_of(plan))) > 1:
        raise UsageError("bisect is for plans of one release, not of several in one quorum")
    named = {kafka_raft.VERSION: absolute_builds(versions)}
    given = kafka_raft.runs_of(SystemRequest({}, named))
    if kafka_raft.OWN in (*given, _release(plan)):
        raise UsageError(f"bisect is for releases of Kafka, and {kafka_raft.OWN} is none")
    releases = sorted({*given, _release(plan)}, key=_age)
    if len(releases) < 2:
        raise UsageError("--kafka-versions: give a release beside that of the plan")
    for release in releases:
        java_command(release, say=lambda text: click.echo(text, err=True))
    return releases


def _age(release: str) -> tuple[list[int], bool]:
    """Order releases; a build, which is a folder, comes after the release whose version it has."""
    version = raft_version(release)
    return [int(number) for number in re.findall(r"\d+", version)[:3]], os.sep in release


def _release(plan: Plan) -> str:
    return plan.system_options[kafka_raft.VERSION]


def _document(state: Bisection, explanation: str, seconds: float) -> dict[str, Any]:
    return {
        "property": state.wanted[0],
        "explanation": explanation,
        "sure": state.is_sure,
        "error": state.error,
        "rate_at_least": round(state.rate, 4),
        "seeds_needed": state.needed,
        "first_with": state.first_with,
        "last_without": state.last_without,
        "first_without": state.first_without,
        "releases": [
            {"release": tried.release, "has": tried.has, "seeds": tried.seeds, "red": tried.red}
            for tried in _in_order(state)
        ],
        "seconds": round(seconds, 1),
    }


def _in_order(state: Bisection) -> Iterator[Tried]:
    return (state.tried[each] for each in state.releases if each in state.tried)


def _line(tried: Tried) -> str:
    return f"{tried.release}: {tried.red} of {tried.seeds} seeds red"


def _lines(state: Bisection) -> Iterator[str]:
    what = {True: "has it", False: "has it not", None: "not known"}
    for tried in _in_order(state):
        yield f"  {what[tried.has]:<12}{_line(tried)}"
    if state.needed is None:
        yield f"no further seed was red on {_release(state.plan)}: no number of seeds is enough"
    else:
        yield (
            f"at least {state.rate:.3g} of all seeds are red: {state.needed} seeds show it, "
            f"but with a probability of {state.error / 3:.2g}"
        )
    before = f", {state.last_without} has it not" if state.last_without else ""
    after = f"; {state.first_without} is the first without it" if state.first_without else ""
    sure = f"wrong by chance at most {state.error:g}" if state.is_sure else "NOT SURE"
    yield f"{state.wanted[0]}: {state.first_with} is the first that has it{before}{after} ({sure})"
