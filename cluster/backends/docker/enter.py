"""`python -m cluster.backends.docker.enter ORDER`: become a program in another root file system.

Run by the container of the toolkit, as its root, where the toolkit's Python and tools are; the
other root is that of a container of the user's image, of which nothing is asked: any C library, or
none, will do. What the order wants run by the toolkit's own Python, `-m MODULE`, is loaded before
the root is left and called after it, since there need not be any Python there.

ORDER is JSON: `root` (a path to it), `user` ([uid, gid]), `folder` (a path in both roots, where the
program runs), `output` (a file in that folder, which is there), `environment` (all of it), and
`command`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def enter(order: dict[str, Any]) -> None:
    """Leave this root for the other one, and this user for that of the node."""
    uid, gid = order["user"]
    os.chroot(order["root"])
    os.chdir(order["folder"])
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    os.environ.clear()
    os.environ.update(order["environment"])


def main(order: dict[str, Any]) -> None:
    """Do what the order says; what fails is written to the program's own output."""
    output = os.open(Path(order["folder"], order["output"]), os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    program, *words = order["command"]
    if program == sys.executable:
        option, module, *arguments = words
        assert option == "-m", "a module, which can be loaded beforehand"
        called = importlib.import_module(module).main
        enter(order)
        called(arguments)
    else:
        enter(order)
        try:
            os.execvp(program, order["command"])  # noqa: S606
        except OSError as error:
            sys.exit(f"{program}: {error.strerror}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
