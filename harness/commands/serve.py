"""`serve`: stored runs as pages for a browser on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.options import Command
from harness.errors import UsageError

DEFAULT_PORT = 8321


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), default="runs", metavar="[FOLDER]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    metavar="P",
    help="Port on 127.0.0.1; 0: any that is free.",
)
def serve(folder: Path, port: int) -> int:
    """Serve the index and the reports of a folder of runs on 127.0.0.1, until Ctrl-C.

    It only reads, and answers for nothing but runs' pages.
    """
    from results.serving import ADDRESS, RunServer  # noqa: PLC0415  (imports what makes pages)

    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder of runs")
    try:
        server = RunServer(folder, port)
    except OSError as error:
        raise UsageError(
            f"port {port} of {ADDRESS} cannot be had ({error.strerror}); --port takes another"
        ) from error
    with server:
        click.echo(server.url)
        server.serve_forever()
    return 0
