"""`python -m cluster.systems.kafka.start --config FILE`: format a node's folder once, become Kafka.

The process that a backend starts is the one that becomes the JVM, so that signals and exit codes
are Kafka's own. One line of its output begins an incarnation in the node's trace.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

START: Final = "kraftprobe.start"
"""Logger of the line with which each start begins."""
FORMATTED: Final = "kraftprobe.formatted"
"""A file in the metadata folder: a format that was cut off is repeated. And one beside the folder:
what is formatted after it is a new disk, which must not be taken for the one that was lost."""


def main(arguments: list[str]) -> None:
    """Start the node that the file describes."""
    file = Path(arguments[arguments.index("--config") + 1])
    config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    data = Path(config["data"])
    if not (data / FORMATTED).exists():
        shutil.rmtree(data, ignore_errors=True)
        before = file.with_name(FORMATTED)
        command = config["format_again" if before.exists() else "format"]
        formatted = subprocess.run(command, check=False)  # noqa: S603
        if formatted.returncode:
            sys.exit(formatted.returncode)
        before.touch()
        (data / FORMATTED).touch()
        for path in (*data.rglob("*"), data, before, before.parent):
            _sync(path)
    facts = {"node_id": config["node_id"], "clock": config["clock"], "pid": os.getpid()}
    facts |= config["facts"]
    properties = (data / "meta.properties").read_text(encoding="utf-8")
    # On a line of its own: a kill may have left half a line.
    line = {**facts, "directory_id": dict(_pairs(properties)).get("directory.id", "")}
    sys.stdout.write(f"\n{time.monotonic_ns()}|INFO|{START}|{json.dumps(line)}\n")
    sys.stdout.flush()
    os.execvp(config["run"][0], config["run"])  # noqa: S606


def _sync(path: Path) -> None:
    """Make a file or a folder durable, as whoever formats a node does before its first start."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pairs(properties: str) -> list[tuple[str, str]]:
    pairs = (line.partition("=") for line in properties.splitlines())
    return [(key, value) for key, _, value in pairs]


if __name__ == "__main__":
    main(sys.argv[1:])
