"""The command line.

Exit codes: 0 PASS, 1 FAIL, 2 usage or environment, 3 UNKNOWN, 4 UNDER-EXERCISED, 130 interrupted.
Errors are one line on stderr. One that nobody expected leaves its traceback in a file, and the line
says where.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from cluster.names import unknown
from harness.errors import (
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    ImpossibleError,
    is_expected,
    one_line,
    save_traceback,
)
from harness.interrupt import sigterm_interrupts

_COMMANDS = {
    "campaign": ("listing:campaign", "Print a named campaign: a plan in TOML."),
    "check": ("judge:check", "Judge a stored run again, or a lone history file."),
    "cleanup": ("machine:cleanup", "Take away what killed runs left behind, and nothing else."),
    "doctor": ("machine:doctor", "Say what works on this machine, each fault on each backend."),
    "gate": ("judge:gate", "Pass only if every run passed."),
    "list": ("listing:list_", "List runs, workloads, faults, campaigns or mutants."),
    "log": ("dump:log", "Look into a node's metadata log."),
    "replay": ("sim:replay", "Run a stored scenario again and tell its story."),
    "report": ("judge:report", "Write the report of a judged run again, and print its path."),
    "run": ("run:run", "Run a campaign: cluster up, clients and faults, heal, judge, report."),
    "shrink": ("sim:shrink", "Cut a failing scenario down to what matters and tell its story."),
    "sim": ("sim:sim", "Run simulated clusters in virtual time, from seeds or a scenario file."),
    "snapshot": ("dump:snapshot", "Look into a snapshot of the metadata log."),
}
"""Where each command is defined, below `harness.commands`, and its line in the list of commands.

A command's module is imported when the command is called: together they import most libraries,
which takes over a second.
"""


class _Interrupted(Exception):  # noqa: N818  (what happened)
    """A KeyboardInterrupt on its way through click."""


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
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise _Interrupted from interrupt  # click would print an empty line

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs["standalone_mode"] = False
        try:
            with sigterm_interrupts():
                code = super().main(*args, **kwargs)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(EXIT_USAGE)
        except click.ClickException as error:
            _fail(error.format_message())
        except (KeyboardInterrupt, click.Abort, _Interrupted):
            click.echo("kraftprobe: interrupted", err=True)
            sys.exit(EXIT_INTERRUPTED)
        except ImpossibleError as error:
            _fail(*error.lines)
        except Exception as error:  # noqa: BLE001  (the last place that can tell it in one line)
            if is_expected(error):
                _fail(one_line(error))
            _fail(f"unexpected {type(error).__name__}: {one_line(error)}; {_kept(error)}")
        sys.exit(code if isinstance(code, int) else 0)


def _fail(*messages: str) -> NoReturn:
    for message in messages:
        click.echo(f"kraftprobe: {' '.join(message.split())}", err=True)
    sys.exit(EXIT_USAGE)


def _kept(error: Exception) -> str:
    try:
        return f"traceback in {save_traceback(error)}"
    except OSError as failure:
        return f"its traceback could not be saved ({one_line(failure)})"


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kraftprobe", prog_name="kraftprobe")
def main() -> None:
    """Put a KRaft metadata quorum through faults and prove whether it kept its promises."""
