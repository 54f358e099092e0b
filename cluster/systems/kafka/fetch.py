"""Fetch a release of Apache Kafka as Maven artefacts into a cache, by Ivy.

PySpark brings Ivy, which Spark uses for its own packages: it knows the public repository, resolves
what an artefact depends on, checks every file against the repository's checksums, and goes on where
it was cut off, since its cache keeps what arrived whole. It locks none of its files, so of fetches
that share a cache one runs after the other. The jar files of a release whose digests are in
`versions` must have these as well; for any other they are written down when they come.

What another repository has under a version is another release, as two candidates for 4.4.0 are:
its name is `VERSION@` and a digest of the repository's address, and Ivy keeps its files apart. Only
a repository whose files have the digests of `versions`, all of them, has the release itself.

The repository is believed by the authorities that this machine trusts, which behind a proxy may be
more than those that come with Java: the bundle that SSL_CERT_FILE names, else the system's own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import re
import shutil
import ssl
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from cluster.systems.kafka.installation import (
    BRIEF,
    DIGESTS,
    RAFT,
    cache_folder,
    checked_version,
    java,
)
from cluster.systems.kinds import SettingError

_VERSIONS: Final = Path(__file__).parent / "versions"
_ARTEFACTS: Final = (
    ("org.apache.kafka", "kafka_2.13", ""),
    ("org.apache.kafka", "kafka-tools", ""),
    # Kafka's own artefacts come without the binding of its logging: no node would log a line.
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
_RAFT_ARTEFACTS: Final = (
    ("org.apache.kafka", "kafka-clients", ""),
    ("org.apache.kafka", "kafka-raft", ""),
    ("org.apache.kafka", "kafka-server-common", ""),
    ("org.slf4j", "slf4j-api", "1.7.36"),
)
"""What KafkaRaftClient needs where its network and its disk are simulated."""
_TRUST_PASSWORD: Final = b"public certificates only"
_TROUBLES: Final = ("Server access error", "[FAILED", "not found")
"""What Ivy says where it failed, the most telling first."""
_STEPS: Final = {"found ": "resolving artefact", "downloading ": "downloading file"}
"""How Ivy's lines begin, and what is said of them."""

Say = Callable[[str], None]


class FetchError(Exception):
    """A release cannot be fetched; one line."""


def fetch(version: str, repository: str | None, say: Say) -> Path:
    """Fetch a release unless it is there, and return its folder, which has a `libs` of jar files.

    `repository`: address of a Maven repository instead of the public one, of which Kafka's own
    artefacts are taken; `say` is called with each step. Raises FetchError, SettingError.
    """
    return _fetch(version, checked_version(version), _ARTEFACTS, repository, say)


def fetch_raft(version: str, repository: str | None, say: Say) -> Path:
    """Fetch the raft module of a release alone, 11 MB, as `fetch` does a whole one."""
    return _fetch(version, RAFT.format(checked_version(version)), _RAFT_ARTEFACTS, repository, say)


Artefacts = tuple[tuple[str, str, str], ...]
"""Organisation, name, revision; no revision: that of the release."""


def _fetch(version: str, name: str, artefacts: Artefacts, repository: str | None, say: Say) -> Path:
    if "@" in version:
        raise SettingError(
            f"{version} is the name of what was fetched from another repository: give "
            f"{version.partition('@')[0]} and --repository URL"
        )
    title, whole, listing = f"Apache Kafka {version}", cache_folder() / name, _listing(name)
    rows = tuple((where, what, revision or version) for where, what, revision in artefacts)
    module = _module(rows, transitive=artefacts is _ARTEFACTS)
    if repository is None:
        return _fetch_module(title, whole, module, listing, None, say)
    repository = f"{repository.rstrip('/')}/"
    address = hashlib.sha256(repository.encode()).hexdigest()[:8]
    home = cache_folder() / f"{name}@{address}"
    _fetch_module(title, home, module, _listing(home.name), repository, say)
    if not listing.is_file() or _read_listing(listing) != _read_listing(home / DIGESTS):
        return home
    with _alone(whole.parent / f".{name}.lock", say):
        if not (whole / DIGESTS).is_file():
            shutil.rmtree(whole, ignore_errors=True)
            shutil.copytree(home / "libs", whole / "libs")
            shutil.copy(home / DIGESTS, whole / DIGESTS)
        _compare(title, whole, listing, say)
    return whole


def fetch_jars(title: str, home: Path, artefacts: Artefacts, listing: Path, say: Say) -> Path:
    """Fetch artefacts and what they depend on into `libs` of a folder, unless they are there.

    `title` names them in messages. `listing` has the digests that their files must have, a row
    "SHA-256  libs/name" each; without such a file they are written down when they come. Raises
    FetchError.
    """
    return _fetch_module(title, home, _module(artefacts, transitive=True), listing, None, say)


def _fetch_module(
    title: str, home: Path, module: str, listing: Path, repository: str | None, say: Say
) -> Path:
    """Fetch what a module of Ivy depends on; see `fetch_jars`."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with _alone(home.parent / f".{home.name}.lock", say):
        if not (home / DIGESTS).is_file():
            with _alone(_ivy_lock(home), say):
                say(f"resolving what {title} depends on")
                retrieve(title, repository, home, module, say)
        say("comparing digests")
        _compare(title, home, listing, say)
    return home


@contextlib.contextmanager
def _alone(lock: Path, say: Say) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that fetches")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def retrieve(title: str, repository: str | None, home: Path, module: str, say: Say) -> None:
    """Let Ivy put the jar files into the folder; a folder with `DIGESTS` is whole."""
    shutil.rmtree(home, ignore_errors=True)
    work = home.with_name(f".{home.name}.work")
    work.mkdir(exist_ok=True)
    (work / "ivy.xml").write_text(module, encoding="utf-8")
    command = [
        java(),
        *BRIEF,
        *_trust(work),
        f"-Divy.default.ivy.user.dir={work}",
        "-Divy.maven.lookup.sources=false",
        "-Divy.maven.lookup.javadoc=false",
        "-cp",
        str(_ivy()),
        "org.apache.ivy.Main",
    ]
    command += ["-ivy", str(work / "ivy.xml"), "-cache", str(_ivy_cache(home))]
    if repository is not None:
        (work / "settings.xml").write_text(_settings(repository), encoding="utf-8")
        command += ["-settings", str(work / "settings.xml")]
    command += ["-types", "jar", "bundle", "-retrieve"]
    command += [f"{home}/libs/[artifact]-[revision](-[classifier]).jar"]
    code, lines = _run(command, say)
    if code:
        # Of a module whose description arrived by half Ivy would say for ever that it has none.
        for description in _ivy_cache(home).glob("*/*/ivy-*.xml"):
            if not description.with_name(f"{description.name}.original").exists():
                description.unlink()
        raise FetchError(f"{title} cannot be fetched: {_trouble(lines)}")
    jars = sorted((home / "libs").glob("*.jar"))
    text = "".join(f"{_digest(jar)}  libs/{jar.name}\n" for jar in jars)
    half = home / f"{DIGESTS}.half"
    half.write_text(text, encoding="ascii")
    half.rename(home / DIGESTS)


def _run(command: list[str], say: Say) -> tuple[int, list[str]]:
    """Run Ivy, and return its exit code and what it wrote."""
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as ivy:
        try:
            assert ivy.stdout is not None, "it is a pipe"
            for line in ivy.stdout:
                lines.append(line.strip())
                for begins, step in _STEPS.items():
                    if lines[-1].startswith(begins):
                        number = sum(known.startswith(begins) for known in lines)
                        name = re.split(r"[/#]", lines[-1].split()[1])[-1]
                        say(f"{step} {number}: {name.replace(';', ' ')}")
        except BaseException:
            ivy.kill()
            raise
    return ivy.returncode, lines


def _trouble(lines: list[str]) -> str:
    for trouble in _TROUBLES:
        if found := [line for line in lines if trouble in line]:
            return found[0].strip(": \t")[:300]
    return next((line for line in reversed(lines) if line), "Ivy wrote nothing")[:300]


def _compare(title: str, home: Path, listing: Path, say: Say) -> None:
    """Compare the jar files with their digests. What differs is deleted. Raises FetchError."""
    expected = _read_listing(listing if listing.is_file() else home / DIGESTS)
    found = {f"libs/{jar.name}": jar for jar in (home / "libs").glob("*.jar")}
    odd = [name for name in {*expected, *found} if name not in expected or name not in found]
    odd += [
        name for name, jar in found.items() if name not in odd and _digest(jar) != expected[name]
    ]
    if odd:
        shutil.rmtree(home)
        with _alone(_ivy_lock(home), say):
            shutil.rmtree(_ivy_cache(home), ignore_errors=True)
        raise FetchError(
            f"{title}: {min(odd)} is not the file that was expected (SHA-256); "
            "what was fetched is deleted: fetch it again"
        )


def _ivy_cache(home: Path) -> Path:
    """Locate what Ivy keeps of a release's repository."""
    return home.parent / f".ivy{home.name[home.name.find('@') :] if '@' in home.name else ''}"


def _ivy_lock(home: Path) -> Path:
    """Locate the lock of `_ivy_cache`, which is held after that of a release, never before."""
    cache = _ivy_cache(home)
    return cache.with_name(f"{cache.name}.lock")


def _listing(name: str) -> Path:
    """Locate the digests of a release of this name; there is no such file where none are known."""
    return _VERSIONS / f"{name}.txt"


def _read_listing(file: Path) -> dict[str, str]:
    rows = (line.split("  ", 1) for line in file.read_text(encoding="ascii").splitlines())
    return {name: digest for digest, name in rows}


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _module(artefacts: Artefacts, *, transitive: bool) -> str:
    """Return what Ivy is to fetch. Of the raft module it takes no dependencies: it needs none."""
    rows = "".join(
        f'<dependency org="{organisation}" name="{name}" rev="{revision}" '
        f'transitive="{str(transitive).lower()}" conf="default->runtime,master"/>'
        for organisation, name, revision in artefacts
    )
    # Another binding of SLF4J, in 3.x: of two, Java takes either. And Kafka Connect, which one of
    # the tools asks for: half of all files.
    rows += '<exclude org="org.slf4j" module="slf4j-reload4j"/>'
    rows += '<exclude org="org.apache.kafka" module="connect-runtime"/>'
    return (
        '<ivy-module version="2.0"><info organisation="kraftprobe" module="kafka"/>'
        f"<dependencies>{rows}</dependencies></ivy-module>"
    )


def _settings(repository: str) -> str:
    """Return settings by which Kafka's own artefacts come from this repository alone.

    A staging repository has nothing else: what they depend on may come from the public one.
    """
    given = f'<ibiblio name="given" m2compatible="true" root={quoteattr(repository)}/>'
    return (
        '<ivysettings><settings defaultResolver="both"/><resolvers>'
        f'{given}<chain name="both" returnFirst="true"><resolver ref="given"/>'
        '<ibiblio name="public" m2compatible="true"/></chain>'
        '</resolvers><modules><module organisation="org.apache.kafka" resolver="given"/></modules>'
        "</ivysettings>"
    )


def _ivy() -> Path:
    # Not by the module: Spark's workers import it from an archive, which has no jar files.
    jars = distribution("pyspark").locate_file("pyspark/jars")
    return next(Path(str(jars)).glob("ivy-*.jar"))


def _trust(work: Path) -> list[str]:
    """Make Java believe the authorities that OpenSSL does; where it has no bundle, Java's own."""
    from cryptography import x509  # noqa: PLC0415  (the options of a plan need none of it)
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12  # noqa: PLC0415

    paths = ssl.get_default_verify_paths()
    bundles = [Path(paths.cafile or ""), Path(paths.capath or "") / "ca-certificates.crt"]
    bundle = next((path for path in bundles if path.is_file()), None)
    if bundle is None:
        return []
    with warnings.catch_warnings():  # of authorities with serial numbers that RFC 5280 forbids
        warnings.simplefilter("ignore")
        authorities = x509.load_pem_x509_certificates(bundle.read_bytes())
    store = work / "trust.p12"
    store.write_bytes(
        pkcs12.serialize_java_truststore(
            [
                pkcs12.PKCS12Certificate(authority, str(number).encode())
                for number, authority in enumerate(authorities)
            ],
            BestAvailableEncryption(_TRUST_PASSWORD),
        )
    )
    named: Mapping[str, str] = {
        "trustStore": str(store),
        "trustStorePassword": _TRUST_PASSWORD.decode(),
        "trustStoreType": "PKCS12",
    }
    return [f"-Djavax.net.ssl.{key}={value}" for key, value in named.items()]
