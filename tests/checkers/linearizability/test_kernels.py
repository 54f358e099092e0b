"""The compiled library: which is used, how its absence shows, and that it does nothing that C forbids."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness.commands import image
from porcupine_py import kernels
from porcupine_py.kernels import build, load, why_not
from porcupine_py.kernels.library import OPERATIONS_MAX, right
from porcupine_py.search.compiled import WglRun
from porcupine_py.search.encoding import Encoded

ROOT = Path(__file__).parents[3]


@pytest.fixture
def anew(monkeypatch):
    """The library is looked for again, and the warning is not kept for once."""
    monkeypatch.setattr(kernels, "_load", kernels._load.__wrapped__)
    monkeypatch.setattr(kernels, "_warn", kernels._warn.__wrapped__)
    return monkeypatch


def test_what_is_loaded_was_built_from_the_sources_beside_it():
    assert load().sources == build.digest()


def test_the_image_of_the_toolkit_holds_it():
    held = {path.name: data for path, (data, _) in image._files()}
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


def cut_short(patch, folder):
    """As a full disk or an interrupted copy leaves it; to load it would kill the process."""
    whole = build.LIBRARY.read_bytes()
    (folder / "searches.so").write_bytes(whole[: len(whole) // 2])
    patch.setattr(kernels, "LIBRARY", folder / "searches.so")


def a_folder(patch, folder):
    """Something that cannot be read, for root as well."""
    (folder / "searches.so").mkdir()
    patch.setattr(kernels, "LIBRARY", folder / "searches.so")


def unreadable_sources(patch, folder):
    (folder / "a.c").mkdir()
    patch.setattr(build, "FOLDER", folder)


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
        (cut_short, "searches.so is cut short"),
        (a_folder, "searches.so cannot be loaded .*Is a directory"),
        (unreadable_sources, "Is a directory: .*a.c"),
        (another, "searches.so cannot be loaded"),
        (stale, "searches.so was built from other sources than those beside it"),
    ],
)
def test_a_library_that_cannot_be_used_is_reported_with_what_to_do(anew, tmp_path, spoil, reason):
    spoil(anew, tmp_path)
    with pytest.warns(RuntimeWarning, match=rf"plain Python: .*{reason}.*: install the package"):
        assert load() is None
    assert re.search(reason, why_not())


@pytest.mark.parametrize("length", [0, 5, 63, 64, 4096, -1])
def test_a_part_of_the_library_is_refused_wherever_it_ends(anew, tmp_path, length):
    (tmp_path / "searches.so").write_bytes(build.LIBRARY.read_bytes()[:length])
    anew.setattr(kernels, "LIBRARY", tmp_path / "searches.so")
    with pytest.warns(RuntimeWarning, match="plain Python"):
        assert load() is None


def test_arrays_are_passed_where_the_library_may_read_them():
    odd = np.frombuffer(bytes(8 * 5 + 1), np.int64, offset=1)
    assert not odd.flags.aligned
    assert right(odd).flags.aligned
    assert right(np.arange(6)[::2]).flags.c_contiguous
    aligned = np.arange(6)
    assert right(aligned) is aligned
    with pytest.raises(TypeError, match="ALIGNED"):
        load().call("factors", 5, odd)


class Interrupted(np.ndarray):
    """Ctrl-C is pressed while this array is on its way."""

    @property
    def ctypes(self):
        raise KeyboardInterrupt


def test_an_interrupt_between_two_calls_stays_one():
    with pytest.raises(KeyboardInterrupt):
        load().call("factors", 5, np.zeros(5, np.int64).view(Interrupted))


def test_more_than_32_bits_count_are_refused():
    many = np.broadcast_to(np.int64(0), OPERATIONS_MAX)  # which takes no memory
    none = np.zeros(0, np.int64)
    encoded = Encoded(many, none, many, many, many, many, many, many, 0, none)
    with pytest.raises(MemoryError, match="536870912 operations"):
        WglRun(load(), encoded, [0])


def test_switching_it_off_is_no_reason_to_warn(anew):
    anew.setenv(kernels.SWITCH, "0")
    assert load() is None
    assert why_not() == "the compiled searches are switched off by KRAFTPROBE_COMPILED=0"


CHECK = """
import sys
from pathlib import Path
from porcupine_py import kernels
kernels.LIBRARY = Path("searches.so")
from harness.cli import main
main(["check", sys.argv[1], "--model", "register"])
"""


@pytest.mark.slow
def test_check_goes_on_in_plain_python_and_says_so_in_a_line(tmp_path):
    events = [
        (f"{{:process 0 :type {kind} :f :write :value {i % 2}}}\n")
        for i in range(6)
        for kind in (":invoke", ":ok")
    ]
    events += [f"{{:process 0 :type {kind} :f :read :value 1}}\n" for kind in (":invoke", ":ok")]
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
from porcupine_py import kernels
kernels.LIBRARY = Path(sys.argv[1])
assert kernels.load() is not None
tests = ("test_searches.py", "test_arrays.py", "test_columnar.py", "test_limits.py")
# Faults of the Python beside it are no business of the library's.
others = "not fault_of_the_verifiers"
sys.exit(pytest.main(["-x", "-m", sys.argv[2], "-k", others, *(f"tests/checkers/linearizability/{name}" for name in tests)]))
"""


def compiled(folder, *flags):
    """The library from the compiler of this machine, with these flags."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not there, whose sanitizers this needs")
    library = folder / "searches.so"
    sources = [path for path in build.sources() if path.suffix == ".c"]
    common = ("-std=c99", "-O1", "-g", "-fPIC", "-shared", f'-DSOURCES="{build.digest()}"')
    subprocess.run([gcc, *common, *flags, "-o", library, *sources], check=True)
    return library


@pytest.mark.slow
@pytest.mark.parametrize(
    "chosen", ["not slow and not nightly", pytest.param("slow", marks=pytest.mark.nightly)]
)
def test_nothing_in_it_is_undefined_and_the_compiler_warns_of_nothing(tmp_path, chosen):
    """Built so that it dies where it does what C does not define, it passes the searches' tests."""
    flags = ("-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsanitize=undefined")
    library = compiled(tmp_path, *flags, "-fsanitize-undefined-trap-on-error")
    done = subprocess.run(
        [sys.executable, "-c", UNDEFINED, library, chosen],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def sanitizer():
    """Return gcc's AddressSanitizer, to be loaded first; skip where there is none."""
    asked = ["gcc", "-print-file-name=libasan.so"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_file():
        pytest.skip("gcc has no AddressSanitizer (Debian: libasan8)")
    return found


@pytest.mark.slow
def test_where_memory_runs_out_no_verdict_is_wrong_and_all_memory_is_freed(tmp_path):
    """Also, AddressSanitizer ends the process where the library reads or writes what is not its."""
    failing = ("-include", ROOT / "tests/checkers/linearizability/failing.h")
    library = compiled(tmp_path, "-fsanitize=address", *failing)
    options = {"ASAN_OPTIONS": "detect_leaks=0", "LD_PRELOAD": sanitizer()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.checkers.linearizability.starved", library],
        cwd=ROOT,
        env=os.environ | options,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'MemoryError'" in done.stdout.splitlines()[-1]
    assert "'UNKNOWN'" in done.stdout.splitlines()[-1]
