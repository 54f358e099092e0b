"""The command line.

Exit codes: 0 PASS, 1 FAIL, 2 usage or environment, 3 UNKNOWN, 4 UNDER-EXERCISED, 130 interrupted.
Errors are one line on stderr. One that nobody expected leaves its traceback in a file, and the line
says where.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import click

from cluster.names import unknown
from harness.commands.dump import log, snapshot
from harness.commands.judge import check, gate, report
from harness.commands.listing import campaign, list_
from harness.commands.machine import cleanup, doctor
from harness.commands.run import run
from harness.commands.sim import replay, shrink, sim
from harness.errors import (
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EXPECTED,
    ImpossibleError,
    one_line,
    save_traceback,
)
from harness.interrupt import sigterm_interrupts


class _Interrupted(Exception):  # noqa: N818  (what happened)
    """A KeyboardInterrupt on its way through click."""


class _Commands(click.Group):
    """A group whose every error is one line and the right exit code."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise click.UsageError(unknown("command", args[0], self.commands))
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
        except (*EXPECTED, OSError) as error:
            _fail(one_line(error))
        except Exception as error:  # noqa: BLE001  (the last place that can tell it in one line)
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


for _command in (
    run,
    sim,
    replay,
    shrink,
    check,
    report,
    gate,
    doctor,
    cleanup,
    list_,
    campaign,
    log,
    snapshot,
):
    main.add_command(_command)
