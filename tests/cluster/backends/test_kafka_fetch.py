"""Releases fetched from a Maven repository: whole, cut off, changed, not there."""

import http.server
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from hashlib import sha1, sha256
from importlib.metadata import distribution
from pathlib import Path

import pytest

from cluster.systems.kafka import fetch
from cluster.systems.kafka.installation import DIGESTS, cache_folder, find, home_of, raft_libraries
from cluster.systems.kinds import SettingError

pytestmark = pytest.mark.slow

VERSION = "0.9.7"
"""One that no release has."""
POM = """\
<project><modelVersion>4.0.0</modelVersion><groupId>{organisation}</groupId>
<artifactId>{name}</artifactId><version>{version}</version>
<dependencies>{dependencies}</dependencies></project>
"""
NEEDED = (
    "<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-raft</artifactId>"
    "<version>{version}</version></dependency>"
    "<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId>"
    "<version>2.25.4</version></dependency>"
)
ARTEFACTS = {
    ("org.apache.kafka", "kafka_2.13", ""): NEEDED,
    ("org.apache.kafka", "kafka-tools", ""): "",
    ("org.apache.kafka", "kafka-raft", ""): "",
    ("org.apache.kafka", "kafka-clients", ""): NEEDED,  # of what is fetched alone, none is
    ("org.apache.kafka", "kafka-server-common", ""): "",
    ("org.slf4j", "slf4j-api", "1.7.36"): "",
    ("org.apache.logging.log4j", "log4j-core", "2.25.4"): "",
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"): "",
}


class Repository:
    """A Maven repository of empty jar files on loopback, and what it was asked."""

    def __init__(self, folder, version):
        self.folder, self.asked, self.broken = folder, [], set()
        for (organisation, name, own), dependencies in ARTEFACTS.items():
            revision = own or version
            place = folder / organisation.replace(".", "/") / name / revision
            place.mkdir(parents=True)
            pom = POM.format(
                organisation=organisation,
                name=name,
                version=revision,
                dependencies=dependencies.format(version=version),
            )
            self.put(place / f"{name}-{revision}.pom", pom.encode())
            with zipfile.ZipFile(place / "jar", "w") as jar:
                jar.writestr("name", name)
            self.put(place / f"{name}-{revision}.jar", (place / "jar").read_bytes())
        repository = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args):
                super().__init__(*args, directory=str(folder))

            def do_GET(self):
                repository.asked.append(self.path.rpartition("/")[2])
                if any(name in self.path for name in repository.broken):
                    self.send_error(503)
                else:
                    super().do_GET()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def put(path, content):
        path.write_bytes(content)
        path.with_name(f"{path.name}.sha1").write_text(sha1(content).hexdigest())

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Repository(tmp_path / "repository", VERSION)
    yield made
    made.close()


def test_a_release_is_fetched_with_what_it_depends_on_once(repository):
    said = []
    home = fetch.fetch(VERSION, repository.url, said.append)
    assert sorted(jar.name for jar in (home / "libs").iterdir()) == [
        f"kafka-raft-{VERSION}.jar",
        f"kafka-tools-{VERSION}.jar",
        f"kafka_2.13-{VERSION}.jar",
        "log4j-core-2.25.4.jar",
        "log4j-slf4j-impl-2.25.4.jar",
    ]
    assert home.name.startswith(f"{VERSION}@")
    assert home_of(home.name) == home
    assert home_of(VERSION) is None, "what another repository has is another release"
    assert find({"version": home.name}).libraries == home / "libs"
    assert any(line.startswith("downloading file 5") for line in said)
    repository.asked.clear()
    assert fetch.fetch(VERSION, repository.url, said.append) == home
    assert repository.asked == []


def own_name(home):
    return home.name.removeprefix("raft-")


def test_two_repositories_have_two_releases_of_one_version(repository, tmp_path):
    first = fetch.fetch(VERSION, repository.url, lambda _: None)
    other = Repository(tmp_path / "other", VERSION)
    try:
        [jar] = other.folder.rglob("kafka-raft-*.jar")
        with zipfile.ZipFile(jar, "a") as file:
            file.writestr("second candidate", "")
        Repository.put(jar, jar.read_bytes())
        second = fetch.fetch(VERSION, other.url, lambda _: None)
        asked = f"kafka-raft-{VERSION}.jar"
        assert asked in other.asked, "no cache holds it for another repository"
        assert fetch.fetch(VERSION, other.url.rstrip("/"), lambda _: None) == second
    finally:
        other.close()
    assert first != second
    assert (first / "libs" / asked).read_bytes() != (second / "libs" / asked).read_bytes()
    assert (second / "libs" / asked).read_bytes() == jar.read_bytes()


def test_a_mirror_with_the_very_files_of_a_release_has_the_release(repository, monkeypatch):
    other = fetch.fetch(VERSION, repository.url, lambda _: None)
    monkeypatch.setattr(fetch, "_VERSIONS", other.parent)
    (other.parent / f"{VERSION}.txt").write_text((other / DIGESTS).read_text())
    home = fetch.fetch(VERSION, repository.url, lambda _: None)
    assert home == other.with_name(VERSION) == home_of(VERSION)
    assert fetch.fetch(VERSION, None, lambda _: None) == home


def test_the_raft_module_is_fetched_alone_without_what_it_depends_on(repository):
    home = fetch.fetch_raft(VERSION, repository.url, lambda _: None)

    assert [jar.name for jar in raft_libraries(own_name(home))] == [
        f"kafka-clients-{VERSION}.jar",
        f"kafka-raft-{VERSION}.jar",
        f"kafka-server-common-{VERSION}.jar",
        "slf4j-api-1.7.36.jar",
    ]
    assert {jar.parent for jar in raft_libraries(own_name(home))} == {home / "libs"}
    assert len(list((home / "libs").iterdir())) == 4
    assert home_of(own_name(home)) is None


def test_a_worker_of_spark_which_imports_it_from_an_archive_finds_ivy():
    archive = Path(str(distribution("pyspark").locate_file("pyspark/python/lib/pyspark.zip")))
    program = "import pyspark; from cluster.systems.kafka import fetch; print(pyspark.__file__, fetch._ivy())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(archive), *sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    module, ivy = done.stdout.split()
    assert module.startswith(str(archive))
    assert Path(ivy).is_file()


def test_fetches_that_share_ivys_files_run_one_after_the_other(repository):
    home = fetch.fetch(VERSION, repository.url, lambda _: None)
    shutil.rmtree(home)
    repository.asked.clear()
    said, waits = [], threading.Event()

    def say(line):
        said.append(line)
        waits.set()

    second = threading.Thread(target=fetch.fetch, args=(VERSION, repository.url, say))
    with fetch._alone(fetch._ivy_lock(home), lambda _: None):
        second.start()
        assert waits.wait(timeout=600)
        assert said == ["waiting for another process that fetches"]
        assert not home.exists()
    second.join()
    assert home_of(home.name) == home


def test_an_interrupted_fetch_goes_on_where_it_was(repository):
    repository.broken = {"log4j-core-2.25.4.jar"}
    with pytest.raises(fetch.FetchError, match=r"0\.9\.7 cannot be fetched: .*log4j-core") as cut:
        fetch.fetch(VERSION, repository.url, lambda _: None)
    assert len(str(cut.value).splitlines()) == 1
    with pytest.raises(SettingError, match=f"kraftprobe kafka fetch {VERSION}"):
        find({"version": VERSION})
    repository.broken = set()
    repository.asked.clear()
    fetch.fetch(VERSION, repository.url, lambda _: None)
    assert {name for name in repository.asked if name.endswith(".jar")} == {"log4j-core-2.25.4.jar"}


def test_a_file_that_does_not_fit_its_checksum_is_refused(repository):
    [jar] = repository.folder.rglob("kafka-raft-*.jar")
    jar.write_bytes(jar.read_bytes() + b"more")
    with pytest.raises(fetch.FetchError, match="cannot be fetched"):
        fetch.fetch(VERSION, repository.url, lambda _: None)
    assert home_of(VERSION) is None


def test_a_file_that_changed_in_the_cache_is_found_and_fetched_again(repository):
    home = fetch.fetch(VERSION, repository.url, lambda _: None)
    (home / "libs" / f"kafka-raft-{VERSION}.jar").write_bytes(b"another")
    with pytest.raises(fetch.FetchError, match=r"kafka-raft-0.9.7.jar .* fetch it again"):
        fetch.fetch(VERSION, repository.url, lambda _: None)
    assert home_of(home.name) is None
    assert fetch.fetch(VERSION, repository.url, lambda _: None) == home
    assert (home / "libs" / f"kafka-raft-{VERSION}.jar").read_bytes() != b"another"


def test_a_user_without_a_home_is_one_clear_line(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 4)
    with pytest.raises(SettingError, match="no home for Apache Kafka: set XDG_CACHE_HOME"):
        home_of("4.3.1")


def test_a_release_whose_digests_are_known_must_have_them(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = cache_folder() / "4.3.1"
    (home / "libs").mkdir(parents=True)
    (home / "libs" / "kafka-raft-4.3.1.jar").touch()
    (home / DIGESTS).write_text(f"{sha256().hexdigest()}  libs/kafka-raft-4.3.1.jar\n")
    with pytest.raises(fetch.FetchError, match=r"\(SHA-256\)"):
        fetch.fetch("4.3.1", None, lambda _: None)
    assert home_of("4.3.1") is None


@pytest.mark.parametrize("version", ["4.4.0-rc1", "4.4.0-RC2", "4.4.0rc1"])
def test_a_candidate_is_fetched_from_its_staging_repository(version):
    with pytest.raises(SettingError, match=r"kafka fetch 4\.4\.0 --repository URL"):
        fetch.fetch(version, None, lambda _: None)


def test_the_name_of_another_repositorys_release_is_not_fetched():
    with pytest.raises(SettingError, match=r"give 4\.4\.0 and --repository URL"):
        fetch.fetch("4.4.0@0123abcd", None, lambda _: None)


def test_what_is_no_repository_is_named(repository):
    with pytest.raises(fetch.FetchError, match=r"module not found: .*kafka_2\.13;0\.9\.7"):
        fetch.fetch(VERSION, repository.url + "elsewhere/", lambda _: None)


@pytest.mark.parametrize(
    "version", ["4.3", "../../etc", "4.3.1-x", "", "4.3.1\n", "4.3.1@../etc", "4.3.1@"]
)
def test_what_is_no_version_is_refused(version):
    with pytest.raises(SettingError, match="is no version"):
        fetch.fetch(version, None, lambda _: None)


def kraftprobe(*arguments):
    command = (sys.executable, "-c", "from harness.cli import main; main()", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_the_command_prints_the_folder_and_refuses_in_one_line(repository):
    done = kraftprobe("kafka", "fetch", VERSION, "--repository", repository.url)
    home, advice = done.stdout.splitlines()
    assert done.returncode == 0
    assert (Path(home) / DIGESTS).is_file()
    assert advice == f"to run it: --kafka-version {Path(home).name}"
    refused = kraftprobe("kafka", "fetch", "4.3", "--repository", repository.url)
    assert refused.returncode == 2
    [line] = refused.stderr.splitlines()[-1:]
    assert line == "kraftprobe: '4.3' is no version of Apache Kafka: give one such as 4.3.1"
