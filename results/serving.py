"""Stored runs as pages for a browser on this machine: an HTTP server that only reads.

It listens on 127.0.0.1. `/` is the index of runs, made anew for each request; `/CAMPAIGN/RUN/FILE`
is one of FILES of a run, and nothing else is there: a node's folder may hold private keys. Each
part of a path is opened below the one before and never through a link, so that no name and no link,
also one that is put there in between, leads out of the folder.

A page of the web can have its own name point to 127.0.0.1 and then read what answers there (DNS
rebinding), but its requests carry that name as `Host`. Only requests for this address are answered.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from results.catalogue import catalogue
from results.index import FILE, render_index

ADDRESS = "127.0.0.1"
_TEXT = "text/plain; charset=utf-8"
_PAGE = "text/html; charset=utf-8"
FILES = {
    "report.html": _PAGE,
    "plan.json": _TEXT,
    "results.json": _TEXT,
    "junit.xml": _TEXT,
    "history.jsonl": _TEXT,
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src "
    "'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_PIECE_BYTES = 1 << 16
_IDLE_S = 30
"""A connection that says nothing for so long is closed."""


class RunServer(ThreadingHTTPServer):
    """Serves the runs below a folder. Raises OSError where the port cannot be had."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        super().__init__((ADDRESS, port), _Handler)

    @property
    def url(self) -> str:
        """Address of the index."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """Say in one line what went wrong; a browser that left is nothing wrong."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"kraftprobe: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201


class _Handler(BaseHTTPRequestHandler):
    server: RunServer
    protocol_version = "HTTP/1.1"
    server_version = "kraftprobe"
    sys_version = ""
    timeout = _IDLE_S

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        names = {f"{host}:{self.server.server_port}" for host in (ADDRESS, "localhost")}
        if self.headers.get_all("Host") not in [[name] for name in names]:
            self._refuse(HTTPStatus.FORBIDDEN, f"ask for {self.server.url} by that address\n")
            return
        parts = [unquote(part) for part in urlsplit(self.path).path.split("/")[1:]]
        if parts in ([""], [FILE]):
            folder = self.server.folder
            self._send(render_index(folder, catalogue(folder)).encode("utf-8"), _PAGE)
            return
        with contextlib.ExitStack() as opened:
            try:
                file, size_bytes = opened.enter_context(_opened(self.server.folder, parts))
            except (OSError, ValueError):
                self._refuse(HTTPStatus.NOT_FOUND, "there is no such page\n")
                return
            self._head(HTTPStatus.OK, FILES[parts[-1]], size_bytes)
            if self.command == "GET":
                self._copy(file, size_bytes)

    def _copy(self, file: BinaryIO, size_bytes: int) -> None:
        """Send as many bytes as were announced, of a file that may grow or be cut meanwhile."""
        while size_bytes and (data := file.read(min(_PIECE_BYTES, size_bytes))):
            self.wfile.write(data)
            size_bytes -= len(data)
        self.close_connection |= bool(size_bytes)

    def _refuse(self, code: HTTPStatus, text: str) -> None:
        self._send(text.encode("ascii"), _TEXT, code)

    def _send(self, data: bytes, kind: str, code: HTTPStatus = HTTPStatus.OK) -> None:
        self._head(code, kind, len(data))
        if self.command == "GET":
            self.wfile.write(data)

    def _head(self, code: HTTPStatus, kind: str, size_bytes: int) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size_bytes))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the library's)
        """Write no line for each request: names in it come from whoever asks."""


@contextlib.contextmanager
def _opened(folder: Path, parts: list[str]) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file of a run and return its size. Raises OSError, ValueError where there is none."""
    if len(parts) != 3 or parts[2] not in FILES:
        raise ValueError("no file of a run")
    for name in parts:
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise ValueError("no name of a file")
    with contextlib.ExitStack() as opened:

        def descend(name: str | Path, flags: int, below: int | None) -> int:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=below)
            opened.callback(os.close, fd)
            return fd

        fd = descend(folder, os.O_DIRECTORY, None)
        for name in parts[:2]:
            fd = descend(name, os.O_DIRECTORY | os.O_NOFOLLOW, fd)
        fd = descend(parts[2], os.O_NOFOLLOW | os.O_NONBLOCK, fd)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("no plain file")
        with open(fd, "rb", closefd=False) as file:
            yield file, status.st_size
