"""Images of the user's: found, never pulled, and looked into by containers that are removed again.

A container of such an image does nothing by itself: all it needs is a program `sleep`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import docker
from docker.errors import ImageNotFound
from docker.types import LogConfig

from cluster.backends.base import BackendError
from cluster.backends.docker import engine
from cluster.backends.docker.engine import EngineErrors
from cluster.backends.processes.records import TRIAL, labels
from cluster.systems.kinds import SettingError

_SECONDS_MAX: Final = 2**31 - 1
_LOOKS: Final = 3
_LINE_MAX: Final = 300


def at_rest(image: str, run_id: str) -> dict[str, Any]:
    """Return the arguments to create a container of an image of which nothing is run."""
    return {
        "image": image,
        "entrypoint": ["sleep"],
        "command": [str(_SECONDS_MAX)],  # not every sleep knows "infinity"
        "user": "0:0",
        "cap_drop": ["ALL"],
        "environment": labels(run_id),
        "healthcheck": {"test": ["NONE"]},
        "log_config": LogConfig(type="none"),
    }


def variables(configuration: Mapping[str, Any]) -> dict[str, str]:
    """Read the variables of a container's or an image's configuration."""
    pairs = (pair.partition("=") for pair in configuration.get("Env") or ())
    return {name: value for name, _, value in pairs}


class UserImage:
    """See `cluster.systems.image.Image`. What a program answered once is not asked again."""

    def __init__(self, name: str, id_: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self.id = id_
        self.environment = environment
        self._answers: dict[tuple[str, ...], bytes] = {}

    def run(self, command: Sequence[str]) -> bytes:
        """See `Image.run`. Raises BackendError where the engine is gone."""
        words = tuple(command)
        if words not in self._answers:
            with contextlib.closing(engine.connect()) as client:
                self._answers[words] = self._run(client, words)
        return self._answers[words]

    def _run(self, client: docker.DockerClient, command: tuple[str, ...]) -> bytes:
        run_id, container = f"{TRIAL}{secrets.token_hex(4)}", None
        try:
            container = client.containers.create(
                **at_rest(self.id, run_id),
                name=f"kraftprobe-{run_id}",
                network_mode="none",
                labels=engine.marks(run_id),
            )
            container.start()
            for _ in range(_LOOKS):
                code, (stdout, stderr) = container.exec_run(
                    list(command), user=f"{os.geteuid()}:{os.getegid()}", demux=True
                )
                if stdout or stderr:  # a busy engine may lose what a short program printed
                    break
        except EngineErrors as error:
            reason = _essence(engine.reason(error))
            raise SettingError(f"image {self.name} cannot be run: {reason}") from error
        finally:
            if container is not None:
                container.remove(force=True, v=True)
        if code != 0:
            lines = bytes(stderr or stdout or b"").decode(errors="replace").split("\n")
            said = [" ".join(line.split()) for line in lines if line.strip()]
            failure = _essence(said[-1])[:_LINE_MAX] if said else f"exit code {code}"
            raise SettingError(f"image {self.name}: {shlex.join(command)[:_LINE_MAX]}: {failure}")
        return bytes(stdout or b"")


def _essence(line: str) -> str:
    """Leave out of an engine's refusal which of its programs said so to which."""
    return line.rpartition("container process: ")[2].removesuffix(": unknown")


def find_image(name: str) -> UserImage:
    """Find an image that the engine has. Raises BackendError, one line with a remedy."""
    with contextlib.closing(engine.connect()) as client:
        try:
            found = client.images.get(name)
        except ImageNotFound as error:
            raise BackendError(
                f"image {name} is not on this machine, and none is pulled unasked: "
                f"docker pull {shlex.quote(name)}, or docker load"
            ) from error
        except EngineErrors as error:
            raise BackendError(f"image {name}: {engine.reason(error)}") from error
    return UserImage(name, str(found.id), variables(found.attrs.get("Config") or {}))
