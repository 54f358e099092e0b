"""`gate`: whether a build may be released."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from harness.commands.options import FILE, NEW_FILE, Command, path_option, shown_options
from harness.errors import UsageError
from harness.full_disk import full_disk_of
from harness.terminal.answers import Shown, answer

_FOLDER = click.Path(path_type=Path)


@click.command(cls=Command)
@click.argument("run_folders", type=_FOLDER, metavar="RUN...", nargs=-1, required=True)
@path_option(
    "--policy policy_file", "What the release asks of its runs, in TOML (docs/gate.md).", FILE
)
@click.option(
    "--allow-skipped",
    is_flag=True,
    help="Let runs pass that left out faults as impossible (run --skip-impossible).",
)
@click.option("--allow-no-faults", is_flag=True, help="Let runs pass in which no fault bit.")
@click.option(
    "--judge-again",
    is_flag=True,
    help="Judge from journals and nodes' files anew, and compare; of a batch, run the seeds again.",
)
@click.option("--no-canary", is_flag=True, help="Try no faulty node; the decision says so.")
@shown_options(json="Print one JSON document.", quiet="Print the decision alone.")
@click.option("--github", is_flag=True, help="Print annotations for GitHub as well.")
@path_option("--junit", "Write one JUnit file over all runs.", NEW_FILE)
@path_option("--summary", "Append a section in Markdown to a file.", FILE)
def gate(
    run_folders: tuple[Path, ...],
    policy_file: Path | None,
    junit: Path | None,
    summary: Path | None,
    *,
    shown: Shown,
    github: bool,
    **allowed: bool,
) -> int:
    """Pass only if every run passed. Exit code: that of the worst verdict.

    A folder that is no run means all runs below it, and all batches of simulated seeds. A run that
    is given twice counts once. With a policy, what it requires must be there as well. A gate plays
    one simulated world of a node with a known bug, drawn by the runs' seeds: it must FAIL.
    """
    from harness.policy.document import Policy, read_policy  # noqa: PLC0415  (imports pydantic)
    from harness.policy.gate import gate_all  # noqa: PLC0415  (imports the simulated world)
    from results.gate import output  # noqa: PLC0415

    if shown is Shown.JSON and github:
        raise UsageError("--json prints a document alone: it does not go with --github")
    policy = Policy() if policy_file is None else read_policy(policy_file)
    loosened = [name for name in ("allow_skipped", "allow_no_faults", "no_canary") if allowed[name]]
    if policy_file is not None and loosened:
        option = f"--{loosened[0].replace('_', '-')}"
        raise UsageError(f"{option}: with a policy, the policy decides; say {loosened[0]} = true")
    either: dict[str, Any] = {
        name: getattr(policy, name) or given for name, given in allowed.items()
    }
    policy = replace(policy, **either)
    decision = gate_all(run_folders, policy, dt.datetime.now(dt.UTC))
    if junit is not None:
        from results.store.files import write_atomically  # noqa: PLC0415

        write_atomically(junit, output.to_junit(decision))
    if summary is not None:
        section = output.to_markdown(decision)
        with full_disk_of(summary), summary.open("a", encoding="utf-8", errors="replace") as file:
            file.write(section)
    answer(shown, output.to_document(decision), decision.lines, decision.lines[-1:])
    if github:
        for line in output.to_annotations(decision):
            click.echo(line)
    return decision.exit_code
