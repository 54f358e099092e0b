"""`python -m cluster.mutants ID --config FILE`: a faulty node in the real world."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cluster.mutants import UnknownMutantError, apply
from cluster.node.process import CONFIG_OPTION, EXIT_USAGE, run


@click.command()
@click.argument("mutant")
@CONFIG_OPTION
def main(mutant: str, config_file: Path) -> None:
    """Run one KRaft node that is wrong on purpose."""
    try:
        applied = apply(mutant)
    except UnknownMutantError as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_USAGE)
    run(config_file, applied.id)


main()
