"""What installed packages add to registries, and what of it is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import pytest

from extensions import ExtensionError, Registry

GROUP = "kraftprobe.things"


@dataclass(frozen=True)
class Thing:
    name: str


@dataclass(frozen=True)
class Kind(Thing):
    """With the annotations of kinds of systems and workloads."""

    check: Callable[[], None] = print
    workloads: frozenset[str] | None = None
    faults: Mapping[str, frozenset[str]] | None = None
    at: Literal["here", "there"] = "here"
    simulated: bool = False


class Other:
    name = "other"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package whose module says `source`, with these entry points."""

    def install(source, *points, name="pack"):
        info = tmp_path / f"{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text("\n".join((f"[{GROUP}]", *points)) + "\n")
        (tmp_path / f"{name}.py").write_text(
            f"from {__name__} import Kind, Thing, Other\n{source}\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)

    return install


def things(*own):
    return Registry(GROUP, Thing, own)


def test_own_things_come_first_and_those_of_packages_by_name(package):
    package("B, A = Thing('b'), Thing('a')", "b = pack:B", "a = pack:A")
    registry = things(Thing("z"))
    assert list(registry) == ["z", "a", "b"]
    assert len(registry) == 3
    assert "a" in registry
    assert "c" not in registry
    assert registry["a"] == Thing("a")
    assert registry["a"] is registry["a"]
    with pytest.raises(KeyError):
        registry["c"]


def test_an_own_thing_is_found_without_a_look_at_packages(package):
    package("", "z = pack:Z")  # refused, but nobody asked
    own = Thing("z")
    registry = things(own)
    assert registry["z"] is own
    assert "z" in registry


@pytest.mark.parametrize(
    ("source", "point", "message"),
    [
        ("1 / 0", "x = pack:X", "cannot be loaded: ZeroDivisionError: division by zero"),
        ("", "x = pack:X", "cannot be loaded: AttributeError"),
        ("", "x = nowhere:X", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("X = Other()", "x = pack:X", "is Other, not Thing"),
        ("X = Thing('y')", "x = pack:X", "calls itself 'y'"),
        *(
            (f"X = Kind('x', {field}={value})", "x = pack:X", f"its {field} cannot be {value}")
            for field, value in (
                ("check", None),
                ("workloads", "'register'"),
                ("faults", "{'local': 'kill'}"),
                ("faults", "frozenset()"),
                ("at", "'nowhere'"),
                ("simulated", "'no'"),
            )
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(package, source, point, message):
    package(source, point)
    registry = things()
    assert "x" in registry, "its name is known all the same"
    with pytest.raises(ExtensionError) as refused:
        registry["x"]
    assert str(refused.value).startswith(f"entry point 'x' of {GROUP} (package pack 1.2)")
    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_the_name_of_an_own_thing_is_taken(package):
    package("Z = Thing('z')", "z = pack:Z")
    with pytest.raises(ExtensionError, match=r"package pack 1\.2\): Kraftprobe has one"):
        list(things(Thing("z")))


def test_two_packages_cannot_add_one_name(package):
    package("X = Thing('x')", "x = pack:X")
    package("X = Thing('x')", "x = more:X", name="more")
    with pytest.raises(ExtensionError, match=r"more 1\.2 and pack 1\.2 "):
        things()["x"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["list systems", "list faults", "list workloads", "run"])
def test_a_command_says_which_package_is_broken(tmp_path, command):
    info = tmp_path / "pack-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pack\nVersion: 1.2\n")
    kinds = ("systems", "faults", "workloads")
    rows = (f"[kraftprobe.{kind}]\nmine = nowhere:X" for kind in kinds)
    (info / "entry_points.txt").write_text("\n".join(rows) + "\n")
    program = (sys.executable, "-c", "from harness.cli import main; main()", *command.split())
    named = ("--system", "mine") if command == "run" else ()
    done = subprocess.run(
        [*program, *named],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "package pack 1.2) cannot be loaded" in done.stderr
    assert len(done.stderr.splitlines()) == 1
