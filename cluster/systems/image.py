"""An image of the user's, in whose root file system nodes run, so that a build shipped so is tried.

A system that can be run so has the option `OPTION`. The image has to be there: none is pulled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

OPTION: Final = "image"
MEANING: Final = "image of yours in which nodes run, for backend docker"
_ID_SHOWN: Final = len("sha256:") + 12


class Image(Protocol):
    """One image, as it is on this machine now."""

    @property
    def name(self) -> str:
        """As the user names it, which may be another image tomorrow."""

    @property
    def id(self) -> str:
        """Its digest, as `sha256:...`, which decides all that is in it."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that it sets."""

    def run(self, command: Sequence[str]) -> bytes:
        """Run a program in a container of it, as nodes will be, and return what it wrote.

        Raises SettingError where it cannot be run or fails, one line with the image's name.
        """


def versions_of(image: Image, name: str, version: str) -> Mapping[str, str]:
    """Name the build: the version of what is in an image, by its system's name, and the image."""
    shown = f"{version}, image {image.name} {image.id[:_ID_SHOWN]}"
    return {name: shown, OPTION: f"{image.name} {image.id}"}
