"""The engine on this machine: reached through the docker SDK, with errors that a person can use."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.exceptions import RequestException, Timeout

from cluster.backends.base import BackendError
from cluster.backends.hosts import call_whole
from cluster.backends.packages import install
from cluster.backends.processes.records import own_identity, own_place

P = ParamSpec("P")
T = TypeVar("T")

RUN_LABEL = "kraftprobe.run"
"""Label of every container and network: the run's id."""
HARNESS_LABEL = "kraftprobe.harness"
"""Label beside it: `<pid>:<start time>` of the harness that made it."""
PLACE_LABEL = "kraftprobe.place"
"""Label beside it: machine and process namespace of the harness (`own_place`)."""
FOLDER_LABEL = "kraftprobe.folder"
"""Label beside it: the run folder."""
NODE_LABEL = "kraftprobe.node"

LEAST_API = "1.41"
"""Engine 20.10, the oldest that this was tried with."""
_USUAL_SOCKET = Path("/var/run/docker.sock")
_TIMEOUT_S = 30
"""How long the engine may take for one answer; a busy machine takes seconds to start containers."""
BUILD_TIMEOUT_S = 600
"""The same while an image is pulled or built, of which some steps say nothing for minutes."""
_WATCH_EVERY_S = 1.0
_CONNECTIONS = 64
_REASON_MAX = 300
_START = "start it (sudo systemctl start docker)"

EngineErrors = (DockerException, RequestException, OSError)
"""What the SDK raises when the engine refuses, is gone, or was never there."""


class EngineGoneError(BackendError):
    """The engine was there and does not answer any more."""


async def until_gone() -> str:
    """Wait until the engine's socket refuses, or gives no answer for too long; say which."""
    path = _socket_path()
    while True:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(str(path))
                try:
                    writer.write(
                        b"GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n"
                    )
                    if not await reader.readline():
                        raise ConnectionResetError(0, "it hung up")
                finally:
                    writer.close()
        except TimeoutError:
            return f"{path}: no answer for {_TIMEOUT_S} s"
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        await asyncio.sleep(_WATCH_EVERY_S)


def connect() -> docker.DockerClient:
    """Connect to the engine that DOCKER_HOST names, or the usual one. Raises BackendError."""
    try:
        _knock(_socket_path())
        client = docker.DockerClient.from_env(timeout=_TIMEOUT_S, max_pool_size=_CONNECTIONS)
    except EngineErrors as error:
        raise BackendError(_unreachable(error)) from error
    try:
        shortcoming = unfit(client.version(), client.info().get("SecurityOptions") or ())
    except EngineErrors as error:
        client.close()
        raise BackendError(_unreachable(error)) from error
    if shortcoming:
        client.close()
        raise BackendError(shortcoming)
    return client


def marks(run_id: str) -> dict[str, str]:
    """Return the labels of whatever this harness makes for a run."""
    harness = own_identity()
    return {
        RUN_LABEL: run_id,
        HARNESS_LABEL: f"{harness.pid}:{harness.started}",
        PLACE_LABEL: own_place(),
    }


def _socket_path() -> Path:
    asked = os.environ.get("DOCKER_HOST", "")
    if asked and not asked.startswith("unix://"):
        raise BackendError(
            f"backend docker needs an engine on this machine, behind a socket, not {asked} "
            "(DOCKER_HOST): run the harness there"
        )
    return Path(asked.removeprefix("unix://")) if asked else _USUAL_SOCKET


def _knock(path: Path) -> None:
    """Try the socket first: what the SDK says of it hides the reason. Raises OSError."""
    with socket.socket(socket.AF_UNIX) as knocking:
        knocking.settimeout(_TIMEOUT_S)
        knocking.connect(str(path))


def unfit(version: Mapping[str, Any], security: Sequence[str] = ()) -> str:
    """Say in one line what an engine of this version and security lacks; empty: nothing."""
    api = str(version.get("ApiVersion", "0"))
    if _numbers(api) < _numbers(LEAST_API):
        return (
            f"the docker engine {version.get('Version')} is too old: backend docker needs API "
            f"{LEAST_API} (engine 20.10), this one has {api}; update it, or use --backend netns"
        )
    if version.get("Os") != "linux":
        return "backend docker needs an engine for Linux containers"
    if any("rootless" in option for option in security):
        return (
            "this docker engine is rootless, and its containers' addresses cannot be reached: "
            "use the machine's own engine, or --backend netns, which needs no privilege"
        )
    return ""


async def in_thread(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the SDK in a thread, to its end (`call_whole`). Raises BackendError with one line."""
    try:
        return await call_whole(functools.partial(act, *args, **kwargs))
    except EngineErrors as error:
        raise backend_error(error) from error


def backend_error(error: BaseException) -> BackendError:
    """Make the error of one line of what the SDK raised."""
    gone = isinstance(error, RequestsConnectionError | Timeout | ConnectionError)
    return (EngineGoneError if gone else BackendError)(reason(error))


def reason(error: BaseException) -> str:
    """Say in one line what the engine refused, and what to do where that is known."""
    message = str(error)
    if isinstance(error, APIError) and error.explanation:
        message = str(error.explanation)
    message = " ".join(message.split())[:_REASON_MAX] or type(error).__name__
    if "no space left on device" in message.lower():
        return f"docker: {message}; make room: docker system prune, or move the engine's data-root"
    if "docker-init" in message:
        return f"docker: {message}; the engine lacks its init: {install('tini')}"
    if isinstance(error, Timeout):
        return f"the docker engine did not answer within {_TIMEOUT_S} s"
    if isinstance(error, RequestsConnectionError):
        return f"the docker engine is gone: {_socket_path()} does not answer; {_START}"
    return f"docker: {message}"


def _unreachable(error: BaseException) -> str:
    if isinstance(error, PermissionError):
        return (
            "permission denied at the docker engine's socket: add yourself to the group docker "
            "(sudo usermod -aG docker $USER, then log in again), or use --backend netns"
        )
    if isinstance(error, FileNotFoundError):
        return (
            f"no docker engine runs here ({_socket_path()} does not exist): install it "
            f"({install('docker.io')}) or {_START}, or use --backend netns"
        )
    if isinstance(error, ConnectionRefusedError):
        return (
            f"nobody answers at the docker engine's socket ({_socket_path()}): {_START}, or use "
            "--backend netns"
        )
    message = " ".join(str(error).split())
    return f"the docker engine cannot be reached: {message[:_REASON_MAX]}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def engine_expected() -> bool:
    """Whether the user names an engine or one has its socket in the usual place."""
    return "DOCKER_HOST" in os.environ or _USUAL_SOCKET.exists()
