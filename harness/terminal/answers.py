"""How a command answers: in lines for a person, or what a script reads from standard output.

With JSON stdout is one document, whatever the verdict; quiet, it is the one thing that the command
is for. Neither has progress on stderr. A command that ends in exit code 2 before it has an answer
leaves stdout empty, and a line on stderr says why. docs/setup.md lists each document's keys.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable

import click


class Shown(enum.Enum):
    """How much of an answer is printed."""

    LINES = enum.auto()
    """Progress on stderr; everything on stdout."""
    QUIET = enum.auto()
    """What the command is for, alone: a path, a verdict, or nothing."""
    JSON = enum.auto()
    """One document."""


def answer(shown: Shown, document: object, lines: Iterable[str], quiet: Iterable[str] = ()) -> None:
    """Print one of the three forms of an answer."""
    if shown is Shown.JSON:
        print_document(document)
        return
    for line in lines if shown is Shown.LINES else quiet:
        click.echo(line)


def print_document(document: object) -> None:
    """Print a document on stdout."""
    click.echo(json.dumps(document, indent=1, allow_nan=False))
