"""The distribution porcupine-py: built, tried beside NumPy alone, and beside Kraftprobe's own."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

from harness.source_digest import PACKAGES
from porcupine_py.kernels.build import FETCHED, own_compiler

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MEMBER = ROOT / "packages" / "porcupine-py"
HERE = Path(sysconfig.get_path("purelib"))
TOOLS = (
    *("_pytest", "iniconfig", "packaging", "pluggy", "py.py", "pygments", "pytest"),
    *(
        "_hypothesis_ftz_detector.py",
        "_hypothesis_globals.py",
        "_hypothesis_pytestplugin.py",
        "hypothesis",
        "sortedcontainers",
    ),
)
"""What runs the tests; none of it is a dependency of the distribution."""
ELSEWHERE = """
import sys
import porcupine_py
from porcupine_py.kernels import load
assert load() is not None
assert "pyarrow" not in sys.modules, "it is not there"
print(porcupine_py.__file__)
"""

TYPED = """
from porcupine_py import PENDING, Model, Operation, check_operations

Step = tuple[bool, int]


def step(state: int, value: int | None, output: int | None) -> Step:
    if value is None:
        return output is PENDING or output == state, state
    return True, value


register = Model(init=lambda: 0, step=step, read_only=lambda value: value is None)
history: list[Operation[int | None, int | None]] = [Operation(0, 1, 0, None, 10)]
answer: bool = check_operations(register, history)
check_operations(register, [Operation(0, "one", 0, None, 10)])
"""
"""A user's program with types. Only its last line is wrong."""


def python(*arguments, cwd, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
    done = subprocess.run(
        [*map(str, arguments)],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


LEFT_OUT = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "*.so")


def copy_member(target):
    shutil.copytree(MEMBER, target, ignore=LEFT_OUT)


def copy_own(target):
    for name in PACKAGES:
        shutil.copytree(ROOT / name, target / name, ignore=LEFT_OUT)
    for name in ("LICENSE", "NOTICE", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, target)


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """A folder with what builds both wheels; a compiler only where the machine has none."""
    required, own = (
        tomllib.loads((folder / "pyproject.toml").read_text())["build-system"]["requires"]
        for folder in (MEMBER, ROOT)
    )
    assert required == own
    folder = tmp_path_factory.mktemp("tools")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-compile")
    compiler = () if own_compiler() else (FETCHED,)
    python(*pip, "--target", folder, *required, *compiler, cwd=folder)
    return folder


def built(folder, tools):
    """Return the wheel of the sources in a folder, copies, since a build leaves files there."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps")
    places = ("--no-build-isolation", "--wheel-dir", folder / "wheel", folder / "source")
    python(*pip, *places, cwd=folder, PYTHONPATH=str(tools))
    (wheel,) = (folder / "wheel").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("build")
    copy_member(folder / "source")
    return built(folder, tools)


@pytest.fixture(scope="module")
def own_wheel(tools, tmp_path_factory):
    """Kraftprobe's."""
    folder = tmp_path_factory.mktemp("own")
    copy_own(folder / "source")
    return built(folder, tools)


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def empty(wheel, tmp_path_factory):
    """A Python in which nothing is installed but NumPy, what runs tests, and the wheel."""
    folder = tmp_path_factory.mktemp("empty")
    python(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    for name in TOOLS:
        if (HERE / name).exists():
            (site / name).symlink_to(HERE / name)
    for path in HERE.glob("numpy*"):
        (site / path.name).symlink_to(path)
    program = folder / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", program)
    python(*pip, "install", "--no-index", "--no-compile", wheel, cwd=folder)
    return program


def test_the_wheel_holds_every_module_and_no_other(wheel):
    held = {name for name in contents(wheel) if ".dist-info/" not in name}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "porcupine_py").rglob("*.py")}
    kernels = ROOT / "porcupine_py" / "kernels"
    others = {
        *(str(path.relative_to(ROOT)) for path in kernels.glob("*.[ch]")),
        str((kernels / "searches.so").relative_to(ROOT)),
        "porcupine_py/py.typed",
        *(f"porcupine_py/visualization/page.{kind}" for kind in ("css", "html", "js")),
    }
    assert held == modules | others


def test_a_machine_without_a_compiler_has_none_that_would_do(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert own_compiler.__wrapped__() is None  # asked anew, not what is kept of an answer


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("copy", "library"),
    [
        (copy_member, "porcupine_py/kernels/searches.so"),
        (copy_own, "cluster/backends/machine/faked_clock.so"),
    ],
)
def test_where_there_is_neither_compiler_nor_header_one_is_fetched(copy, library, tmp_path):
    copy(tmp_path / "source")
    hidden = 'mount -t tmpfs none /usr/include && exec env PATH= "$@"'
    alone = ("unshare", "--map-root-user", "--mount", "sh", "-c", hidden, "sh")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps")
    python(*alone, *pip, "--wheel-dir", tmp_path, tmp_path / "source", cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert library in contents(wheel)


def test_the_wheel_serves_every_python_of_this_platform(wheel):
    assert wheel.name.split("-")[-3:-1] == ["py3", "none"]
    assert wheel.stem.split("-")[-1] == sysconfig.get_platform().replace("-", "_").replace(".", "_")


def test_the_wheel_requires_numpy_only(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        about = BytesParser().parsebytes(archive.read(name))
    required = about.get_all("Requires-Dist")
    assert [line for line in required if "extra" not in line] == ["numpy>=2.2"]
    assert about.get_all("Provides-Extra") is None
    assert about.get_payload().lstrip().startswith("# porcupine-py")


@pytest.mark.parametrize(
    "kept", ["kraftprobe", pytest.param("porcupine-py", marks=pytest.mark.nightly)]
)
def test_both_are_installed_and_one_is_removed_again(kept, wheel, own_wheel, tmp_path):
    python(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    program = tmp_path / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", program)
    wheels = {"kraftprobe": own_wheel, "porcupine-py": wheel}
    offline = ("--no-index", "--no-deps", "--no-compile")
    python(*pip, "install", *offline, *wheels.values(), cwd=tmp_path)
    (removed,) = wheels.keys() - {kept}

    python(*pip, "uninstall", "--yes", removed, cwd=tmp_path)

    left = {name: data for name, data in contents(wheels[kept]).items() if "/RECORD" not in name}
    assert {name: (site / name).read_bytes() for name in left} == left
    gone = {name for name in contents(wheels[removed]) if (site / name).exists()}
    assert gone == set()


def test_the_wheel_brings_its_types(empty, tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    command = (sys.executable, "-m", "mypy", "--strict", "--python-executable", empty, "typed.py")
    done = subprocess.run(
        [*map(str, command)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    last = TYPED.count("\n")
    assert done.stdout.startswith(f"typed.py:{last}: error: ")
    assert done.stdout.endswith("Found 1 error in 1 file (checked 1 source file)\n")


def test_the_same_tests_pass_beside_numpy_alone(empty, tmp_path):
    """Away from the sources: what they import is the wheel's."""
    for part in ("tests/porcupine_py", "tests/data/histories"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "porcupine_py" / Path(__file__).name).unlink()
    readme = tmp_path / "packages" / "porcupine-py" / "README.md"
    readme.parent.mkdir(parents=True)
    shutil.copy(MEMBER / "README.md", readme)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\nmarkers = browser\n")
    places = python(empty, "-c", ELSEWHERE, cwd=tmp_path).split()
    assert [Path(place).parents[1].name for place in places] == ["site-packages"]
    tried = python(
        *(empty, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not browser"),
        *("-p", "_hypothesis_pytestplugin", "--basetemp", tmp_path / "tmp", "tests/porcupine_py"),
        cwd=tmp_path,
        HYPOTHESIS_STORAGE_DIRECTORY=str(tmp_path / "hypothesis"),
    )
    assert " failed" not in tried
    assert int(tried.rpartition(" passed")[0].split()[-1]) >= 150
