"""Runs commands inside a container for the harness, over one stream: a persistent channel.

Run as a script by `docker exec` (standard library only). Reads one JSON object a line from stdin:

    {"id": n, "command": [...], "stdin": base64, "timeout_s": seconds}

and answers each, in the order in which they end, with one on stdout:

    {"id": n, "exit_code": code, "stdout": base64, "stderr": base64}   or   {"id": n, "error": text}

Commands run beside each other, each in a session of its own, and are killed with their children
when their time is over. Ends when stdin does, as when the harness is gone, so it is never left
behind.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

_writing = threading.Lock()


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run one command."""
    try:
        process = subprocess.Popen(  # noqa: S603  (the harness's own commands)
            request["command"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return {"error": f"{request['command'][0]}: {error.strerror or error}"}
    try:
        given = base64.b64decode(request["stdin"])
        stdout, stderr = process.communicate(given, timeout=request["timeout_s"])
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"error": f"no end within {request['timeout_s']:g} s"}
    return {
        "exit_code": process.returncode,
        "stdout": base64.b64encode(stdout).decode(),
        "stderr": base64.b64encode(stderr).decode(),
    }


def answer(request: dict[str, Any]) -> None:
    """Run one command and write its answer."""
    line = json.dumps({"id": request["id"], **run(request)}) + "\n"
    with _writing:
        sys.stdout.write(line)
        sys.stdout.flush()


def main() -> None:
    """Serve until stdin ends."""
    for line in sys.stdin:
        threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()
    os._exit(0)


if __name__ == "__main__":
    main()
