"""The command line.

Exit codes: 0 PASS, 1 FAIL, 2 usage or environment, 3 UNKNOWN, 4 UNDER-EXERCISED, 70 an error of
Kraftprobe itself, 130 interrupted, 141 the reader of the output left. Errors are one line on
stderr. The traceback of an unexpected error goes to a file, which the line names.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from importlib import import_module
from typing import Any, NoReturn

import click

from cluster.names import unknown
from harness.errors import (
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    ImpossibleError,
    InternalError,
    internal_error,
    is_expected,
    one_line,
)
from harness.signals.interrupt import signals_interrupt
from harness.terminal.output import EXIT_UNREAD, Output, UnreadError, current, guard, wants_colour

_COMMANDS = {
    "calibrate": ("calibrate:calibrate", "Measure which faulty nodes the drawn worlds find."),
    "campaign": ("listing:campaign", "Print a named campaign: a plan in TOML."),
    "check": ("judge:check", "Judge a stored run again, or a lone history file."),
    "cleanup": ("machine:cleanup", "Remove what killed runs left behind, and nothing else."),
    "doctor": ("machine:doctor", "Probe what works on this machine, each fault on each backend."),
    "gate": ("gate:gate", "Pass only if every run passed, and what a policy requires is there."),
    "image": ("image:image", "Build an image that holds Kraftprobe, for jobs in a docker engine."),
    "index": ("judge:index", "Write one page over all runs of a folder, and print its path."),
    "kafka": ("kafka:kafka", "Fetch releases of Apache Kafka, to be put under test."),
    "ladder": ("ladder:ladder", "Find known bugs of released systems again, and none elsewhere."),
    "list": ("listing:list_", "List systems, workloads, faults, campaigns or mutants."),
    "log": ("dump:log", "Look into a node's logs."),
    "reproduce": ("shrink:reproduce", "Look for a failed run's violation in the simulated world."),
    "replay": ("sim:replay", "Run a stored plan again in simulation and print its story."),
    "report": ("judge:report", "Write the report of a judged run again, and print its path."),
    "run": ("run:run", "Run a campaign: cluster up, clients and faults, heal, judge, report."),
    "shrink": ("shrink:shrink", "Shrink a failing plan and print its story."),
    "runs": ("runs:runs", "List and show stored runs."),
    "sim": ("sim:sim", "Run simulated clusters in virtual time, from seeds or a plan."),
    "snapshot": ("dump:snapshot", "Look into a snapshot of the metadata log."),
}
"""Where each command is defined, below `harness.commands`, and its line in the list of commands.

A command's module is imported when the command is called: together they import most libraries,
which takes over a second.
"""


_FINISHING = {
    *("calibrate", "check", "cleanup", "gate", "ladder"),
    *("replay", "reproduce", "run", "shrink", "sim"),
}
"""Commands that run to their end even when the reader of their output has gone."""


class _Raised(Exception):  # noqa: N818  (what happened)
    """Carries through click an error that click would otherwise turn into exit code 1."""


class _Commands(click.Group):
    """A group whose every error is one line and the right exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(f"harness.commands.{module}"), attribute)
        assert isinstance(command, click.Command), f"{cmd_name} is a command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(unknown("command", args[0], _COMMANDS))
        if args and args[0] in _FINISHING:
            current().finish()
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (EOFError, OSError) as error:
            raise _Raised from error
        except Exception:
            raise
        except BaseException as error:
            # No command ends so; code of a package may, and `sys.exit(0)` would be a PASS.
            raise _Raised from error

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs["standalone_mode"] = False
        warnings.formatwarning = _as_a_line
        _extend_path()
        with guard() as output, signals_interrupt():
            try:
                ended = super().main(*args, **kwargs)
                code = ended if isinstance(ended, int) else 0
                if reason := output.stdout_problem():
                    click.echo(f"kraftprobe: stdout could not be written: {reason}", err=True)
            except UnreadError:
                code = EXIT_UNREAD
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  (see the module)
                cause = error.__cause__ if isinstance(error, _Raised) else error
                assert cause is not None, "it was raised from something"
                code = _report(cause, output)
        sys.exit(code)


def _extend_path() -> None:
    """Find nft and losetup for users, too, whose PATH Debian makes without /usr/sbin."""
    folders = dict.fromkeys((*os.get_exec_path(), "/usr/sbin", "/sbin"))
    os.environ["PATH"] = os.pathsep.join(folders)


def _as_a_line(message: Warning | str, *_: object, **__: object) -> str:
    return f"kraftprobe: {message}\n"


def _report(error: BaseException, output: Output) -> int:
    """Report an error on stderr and return the exit code: never 1, whatever happens meanwhile."""
    try:
        code, *lines = _report_of(error)
        output.finish()
        for line in lines:
            click.echo(line, err=True)
    except BaseException as failure:  # noqa: BLE001  (memory has run out, for example)
        what = f"{type(error).__name__}, and {type(failure).__name__} while it was reported"
        with contextlib.suppress(OSError):
            os.write(2, f"kraftprobe: internal error: {what}\n".encode())
        return EXIT_INTERRUPTED if isinstance(failure, KeyboardInterrupt) else EXIT_INTERNAL
    return code


def _report_of(error: BaseException) -> tuple[int, *tuple[str, ...]]:
    """Map an error to an exit code and the lines that report it on stderr."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return EXIT_USAGE, error.format_message()
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return EXIT_INTERRUPTED, "kraftprobe: interrupted"
    code, messages = EXIT_USAGE, [one_line(error)]
    if isinstance(error, click.ClickException):
        messages = [error.format_message()]
    elif isinstance(error, ImpossibleError):
        messages = [*error.lines]
    elif not is_expected(error):
        bug = error if isinstance(error, InternalError) else internal_error(error)
        code = EXIT_INTERNAL if isinstance(bug, InternalError) else EXIT_USAGE
        messages = [str(bug)]
    return code, *(f"kraftprobe: {' '.join(message.split())}" for message in messages)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kraftprobe", prog_name="kraftprobe")
def main() -> None:
    """Put a KRaft metadata quorum through faults and prove whether it kept its promises."""
    click.get_current_context().color = wants_colour()
