"""What all commands share: how a command line is read, and options of several commands."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from extensions.plain_files import refuse_other_file
from harness.errors import UsageError
from harness.terminal.answers import Shown


class Command(click.Command):
    """A command that uses every value it is given: none twice, and none that is empty.

    Click would let the last of two values win, and an unset variable of a shell (`--faults "$F"`)
    would choose a default in silence.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments after the command's name."""
        given, _, order = self.make_parser(ctx).parse_args(args=list(args))
        if not any(parameter.is_eager for parameter in order):  # --help
            for parameter in dict.fromkeys(order):
                _use(ctx, parameter, given.get(parameter.name or ""), order.count(parameter))
        return super().parse_args(ctx, args)


def _use(ctx: click.Context, parameter: click.Parameter, given: object, times: int) -> None:
    """Refuse what was given `times` times though it is used once, and an empty text."""
    name = parameter.make_metavar(ctx)
    if isinstance(parameter, click.Option):
        name = parameter.opts[0]
        takes_value = not parameter.is_flag or parameter.secondary_opts
        if times > 1 and takes_value and not parameter.multiple:
            raise click.UsageError(f"{name} is given twice; give it once")
    for text in given if isinstance(given, list | tuple) else [given]:
        if isinstance(text, str) and not text.strip():
            raise click.UsageError(f"{name} is empty: was a variable not set?")


class Group(click.Group):
    """A group of such commands."""

    command_class = Command


class _NewFile(click.Path):
    """A file that is renamed into place: neither a device, nor a link to one, is replaced."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            refuse_other_file(path)
        except OSError as error:
            self.fail(f"{value}: {error.strerror}", param, ctx)
        return path


class Number(click.FloatRange):
    """A number in a range: not nan, which no comparison finds outside of it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


_Option = Callable[[Any], Any]
FILE = click.Path(path_type=Path, dir_okay=False)
NEW_FILE = _NewFile(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
SEED_MAX = 2**31
RUNS = Path("runs")
"""Default folder of runs, below the working folder."""


def path_option(
    names: str, text: str, kind: click.Path = FOLDER, default: Path | None = None
) -> _Option:
    """Make the option of a path; `names`: its own, and its variable's where that is another."""
    shown: dict[str, Any] = {} if default is None else {"default": default, "show_default": True}
    metavar = "FILE" if kind.file_okay else "DIR"
    return click.option(*names.split(), type=kind, metavar=metavar, help=text, **shown)


def number_option(
    names: str, kind: click.ParamType[Any], default: float, metavar: str, text: str
) -> _Option:
    """Make the option of a number that has a default; `names`: as of `path_option`."""
    return click.option(
        *names.split(), type=kind, default=default, show_default=True, metavar=metavar, help=text
    )


runs_option = path_option("--runs", "Folder of all runs.", default=RUNS)


_MASTER = re.compile(r"local(-cluster)?(\[[\d*, ]+\])?|yarn|spark://.+:\d+.*|k8s://.+")
"""An address that Spark knows: it is asked only once a run is over."""


def _master(_: click.Context, __: click.Parameter, url: str | None) -> str | None:
    if url is not None and url.startswith("sc://"):
        raise UsageError(
            f"--spark-master {url}: Spark Connect is not supported, as it needs packages that "
            "PySpark does not bring; give the address of a master, such as spark://host:7077"
        )
    if url is not None and not _MASTER.fullmatch(url):
        raise UsageError(
            f"--spark-master {url}: give local[2], spark://host:7077, yarn or k8s://https://host:6443"
        )
    return url


spark_option = click.option(
    "--spark-master",
    metavar="URL",
    callback=_master,
    help="Where Spark runs.  [default: local[*] for what is large, no Spark for the rest]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def shown_options(*, json: str, quiet: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add --json and --quiet with these helps; the command gets `shown`."""

    def add(command: Callable[..., int]) -> Callable[..., int]:
        @click.option("--json", "as_json", is_flag=True, help=json)
        @click.option("--quiet", "-q", is_flag=True, help=quiet)
        @wraps(command)
        def with_shown(*args: Any, as_json: bool, quiet: bool, **kwargs: Any) -> int:
            if as_json and quiet:
                raise UsageError("--json prints a document alone: it does not go with --quiet")
            shown = Shown.JSON if as_json else Shown.QUIET if quiet else Shown.LINES
            return command(*args, shown=shown, **kwargs)

        return with_shown

    return add


def absolute_builds(versions: str) -> str:
    """Return releases of Kafka as a plan names them, with the whole paths of folders."""
    parts = (part.strip() for part in versions.split(","))
    return ",".join(os.path.abspath(p) if os.sep in p else p for p in parts)  # noqa: PTH100
