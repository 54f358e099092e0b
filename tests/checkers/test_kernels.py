"""The compiled library: which is used, how its absence shows, and that nothing in it is undefined."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from checkers.linearizability import kernels
from checkers.linearizability.kernels import build, load, why_not
from harness import toolkit_image

ROOT = Path(__file__).parents[2]


@pytest.fixture
def anew(monkeypatch):
    """The library is looked for again, and the warning is not kept for once."""
    monkeypatch.setattr(kernels, "_loaded", kernels._loaded.__wrapped__)
    monkeypatch.setattr(kernels, "_warn", kernels._warn.__wrapped__)
    return monkeypatch


def test_what_is_loaded_was_built_from_the_sources_beside_it():
    assert load().sources == build.digest()


def test_the_image_of_the_toolkit_holds_it():
    held = {path.name: data for path, (data, _) in toolkit_image._files()}
    assert held[build.LIBRARY.name] == build.LIBRARY.read_bytes()


def test_every_source_and_its_name_count(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    digests = set()
    for name, text in (("a.c", "x"), ("a.c", "y"), ("b.h", ""), ("no.py", "")):
        (tmp_path / name).write_text(text)
        digests.add(build.digest())
    assert len(digests) == 3


def missing(patch, folder):
    patch.setattr(kernels, "LIBRARY", folder / "searches.so")


def damaged(patch, folder):
    (folder / "searches.so").write_bytes(b"\x7fELF and no more")
    patch.setattr(kernels, "LIBRARY", folder / "searches.so")


def another(patch, folder):
    """A library, and not ours."""
    other = next(Path(sys.modules["numpy"].__file__).parent.rglob("*.so"))
    shutil.copy(other, folder / "searches.so")
    patch.setattr(kernels, "LIBRARY", folder / "searches.so")


def stale(patch, folder):
    patch.setattr(kernels, "digest", lambda: "of other sources")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (missing, "searches.so is missing"),
        (damaged, "searches.so cannot be loaded"),
        (another, "searches.so cannot be loaded"),
        (stale, "searches.so was built from other sources than those beside it"),
    ],
)
def test_a_library_that_cannot_be_used_is_reported_with_what_to_do(anew, tmp_path, spoil, reason):
    spoil(anew, tmp_path)
    with pytest.warns(RuntimeWarning, match=rf"plain Python: .*{reason}.*: install the package"):
        assert load() is None
    assert reason in why_not()


def test_switching_it_off_is_no_reason_to_warn(anew):
    anew.setenv(kernels.SWITCH, "0")
    assert load() is None
    assert why_not() == "the compiled searches are switched off by KRAFTPROBE_COMPILED=0"


CHECK = """
import sys
from pathlib import Path
from checkers.linearizability import kernels
kernels.LIBRARY = Path("searches.so")
from harness.cli import main
main(["check", sys.argv[1], "--model", "register"])
"""


def test_check_goes_on_in_plain_python_and_says_so_in_a_line(tmp_path):
    events = [
        (f"{{:process 0 :type {kind} :f :write :value {i % 2}}}\n")
        for i in range(6)
        for kind in (":invoke", ":ok")
    ]
    (tmp_path / "history.edn").write_text("".join(events))
    command = [sys.executable, "-c", CHECK, str(tmp_path / "history.edn")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == (
        "kraftprobe: searches run in plain Python: searches.so is missing: install the package again\n"
    )
    assert "every key passes (by wgl)" in done.stdout


UNDEFINED = """
import sys
from pathlib import Path
import pytest
from checkers.linearizability import kernels
kernels.LIBRARY = Path(sys.argv[1])
assert kernels.load() is not None
tests = ("test_searches.py", "test_arrays.py", "test_columnar.py", "test_limits.py")
sys.exit(pytest.main(["-x", *(f"tests/checkers/{name}" for name in tests)]))
"""


def test_nothing_in_it_is_undefined_and_the_compiler_warns_of_nothing(tmp_path):
    """Built so that it dies where it does what C does not define, it passes the searches' tests."""
    caches = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "*.so")
    shutil.copytree(ROOT / "packages" / "porcupine-py", tmp_path / "source", ignore=caches)
    flags = "-fsanitize=undefined -fsanitize-trap=undefined -Wconversion -Werror"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel")
    subprocess.run(
        [*pip, "--no-deps", "--wheel-dir", tmp_path, tmp_path / "source"],
        env=os.environ | {"KRAFTPROBE_CFLAGS": flags},
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        library = archive.extract("checkers/linearizability/kernels/searches.so", tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", UNDEFINED, library],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
