"""`python -m cluster.mutants ID --config FILE`: a faulty node in the real world."""

from __future__ import annotations

import gc

gc.disable()  # as in `cluster.node.__main__`

import sys  # noqa: E402
from pathlib import Path  # noqa: E402

import click  # noqa: E402

from cluster.mutants import UnknownMutantError, apply  # noqa: E402
from cluster.node.process import CONFIG_OPTION, EXIT_USAGE, run  # noqa: E402


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


gc.freeze()
gc.enable()
main()
