"""Errors that the user or the environment caused: reported in one line, without a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path


class UsageError(Exception):
    """What was asked for cannot be done; one line says why."""


class ImpossibleError(UsageError):
    """A plan asks for what cannot work here; one line for each of its faults."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)


class PlanError(ValueError):
    """The plan cannot be run; one line says why."""


class BatchError(ValueError):
    """The folder cannot take this batch of seeds; one line."""


class PackageError(UsageError):
    """A bug of an installed package that adds to Kraftprobe; one line names package and place."""


class WrongAnswerError(TypeError):
    """An object that a package may have added answered what its protocol does not have."""

    def __init__(self, source: object, answer: object) -> None:
        self.module = str(getattr(source, "__module__", type(source).__module__))
        name = f"{self.module}.{getattr(source, '__qualname__', type(source).__qualname__)}"
        try:
            shown = ascii(answer)[:80]
        except Exception:  # noqa: BLE001  (of theirs; or it is nested too deeply)
            shown = f"a {type(answer).__name__}"
        super().__init__(f"{name} answered {shown}, which is none of its answers")


class InternalError(Exception):
    """A bug of Kraftprobe; one line says where its traceback is."""


EXIT_USAGE = 2
EXIT_INTERNAL = 70
"""EX_SOFTWARE of sysexits.h."""
EXIT_INTERRUPTED = 130


_EXPECTED = frozenset(
    {
        "checkers.registry:CheckError",
        "cluster.backends.terms:BackendError",
        "cluster.systems.kafka.fetch:FetchError",
        "cluster.systems.kinds:SettingError",
        "extensions:ExtensionError",
        "harness.run.interpreter:HarnessError",
        "nemeses.base:ParameterError",
        "porcupine_py.operations:HistoryError",
        "results.store.files:StoreError",
        "results.judge.jvm:JvmError",
        "results.judge.session:SparkError",
        "workloads.registry:WorkloadError",
    }
)
"""Classes whose message suffices as a report, by module and name.

Not imported: what was raised is there already, and a handler that imported the rest of the program
would be slow, and would fail itself where memory has run out.
"""


def is_expected(error: BaseException) -> bool:
    """Return whether the error's message suffices as its report, without a traceback.

    For a HarnessError its cause decides.
    """
    if isinstance(error, UsageError | OSError | PlanError | BatchError) or _is_no_utf_8(error):
        return True
    names = {f"{kind.__module__}:{kind.__qualname__}" for kind in type(error).__mro__}
    if "harness.run.interpreter:HarnessError" in names and error.__cause__ is not None:
        return is_expected(error.__cause__)
    return not names.isdisjoint(_EXPECTED)


_NOT_LOADED = "failed to map segment from shared object"
"""What the dynamic linker says of a library for which there is no memory."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, here or in what caused the error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return True
        if isinstance(cause, ImportError) and _NOT_LOADED in str(cause):
            return True
        if isinstance(cause, BaseExceptionGroup):
            return any(map(is_out_of_memory, cause.exceptions))
        cause = cause.__cause__
    return False


def _is_no_utf_8(error: BaseException) -> bool:
    """Whether a name of a file, or a text of a document, holds half of a surrogate pair."""
    return isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason


def one_line(error: BaseException) -> str:
    """Render an error as one line, whatever its message holds."""
    if isinstance(error, UnicodeEncodeError) and _is_no_utf_8(error):
        return f"{error.object[max(0, error.start - 40) : error.end]!a} is no UTF-8: rename it"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}"
    text = " ".join(str(error).split())
    return "".join(c if c.isprintable() else " " for c in text) or type(error).__name__


@contextlib.contextmanager
def bugs_kept_in(folder: Path) -> Iterator[None]:
    """Save the traceback of an unexpected error in `folder`, and raise InternalError."""
    try:
        yield
    except Exception as error:
        if isinstance(error, InternalError) or is_expected(error):
            raise
        raise internal_error(error, folder) from error


def internal_error(
    error: BaseException, folder: Path | None = None
) -> InternalError | PackageError:
    """Make the line that reports a bug; the traceback goes to a new file that only the user reads.

    It is a PackageError if it was raised in, or below, what an installed package added.
    Without `folder` the file is in the user's state folder (XDG_STATE_HOME), else in a new
    temporary folder.
    """
    what = f"{type(error).__name__}: {one_line(error)}"
    try:
        kept = f"its traceback is in {_save(error, folder)}"
    except (OSError, MemoryError) as failure:
        kept = f"its traceback could not be saved ({one_line(failure)})"
    if is_out_of_memory(error):
        return InternalError(f"memory ran out; {kept}; a shorter run, or more memory, may do")
    place = _foreign_place(error)
    if place is not None:
        return PackageError(f"{place}: {what}; {kept}; report it to that package")
    return InternalError(f"internal error: {what}; {kept}; please report it with that file")


def _foreign_place(error: BaseException) -> str | None:
    """Name package, file and line of the innermost frame that an added package has in an error.

    What answered wrongly has no frame any more.
    """
    extensions = sys.modules.get("extensions")  # not imported: see `_EXPECTED`
    if extensions is None:
        return None
    cause: BaseException | None = error
    found = None
    while cause is not None:
        for frame, line in traceback.walk_tb(cause.__traceback__):
            package = extensions.package_of(str(frame.f_globals.get("__name__", "")))
            if package is not None:
                file = frame.f_code.co_filename
                found = f"package {package}, {file} line {line}, in {frame.f_code.co_name}"
        if isinstance(cause, WrongAnswerError) and (package := extensions.package_of(cause.module)):
            found = f"package {package}"
        cause = cause.__cause__
    return found


def _save(error: BaseException, folder: Path | None) -> Path:
    if folder is None:
        try:
            folder = state_folder()
        except (OSError, RuntimeError):
            folder = Path(tempfile.mkdtemp(prefix="kraftprobe-"))
    descriptor, name = tempfile.mkstemp(prefix="internal-error-", suffix=".txt", dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write("".join(traceback.format_exception(error)))
    return Path(name)


def state_folder() -> Path:
    """Make the user's folder. Raises OSError, and RuntimeError for a user without a home."""
    states = Path(os.environ.get("XDG_STATE_HOME", ""))
    folder = (states if states.is_absolute() else Path.home() / ".local" / "state") / "kraftprobe"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(folder)
    return folder
