"""A JVM for each release of Kafka, which holds the nodes of one world at a time.

It is started once in the life of this process, since that takes as long as fifty simulated seconds,
and a further world takes 2 ms. It ends when its input ends, so whatever becomes of this process
leaves no JVM behind; the terminal's Ctrl-C does not reach it.
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Final

from cluster.backends.sim.kafka import frames
from cluster.backends.sim.kafka.classes import java_command
from cluster.backends.terms import BackendError

_SIZE: Final = struct.Struct(">i")
_PIPE_BYTES: Final = 1 << 16
_ANSWER_TIMEOUT_S: Final = 60.0
"""How long one step of a node may take: a thread that never waits would run for ever."""
_SAID_MAX: Final = 300
_PROCESSOR_FIELD: Final = 36
"""Of /proc/.../stat behind the name: where a thread ran last."""


class Jvm:
    """See the module."""

    def __init__(self, command: Sequence[str], release: str) -> None:
        """Start it. Raises BackendError."""
        self.release = release
        self.calls = 0
        """How many frames were sent."""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the JVM)
        try:
            self._process = subprocess.Popen(  # noqa: S603
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise BackendError(f"{command[0]} cannot be started: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._is_called = self._hangs = False
        # Waiting for each answer with a bound would cost a third of the time of a call.
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        """Whether it can be called."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def main_threads(self) -> list[int]:
        """Its first thread and the one that answers: threads of its own have other names."""
        tasks = list(Path(f"/proc/{self.pid}/task").iterdir())
        names = {int(task.name): (task / "comm").read_text() for task in tasks}
        return [thread for thread, name in names.items() if name == names[self.pid]]

    def call(self, frame: bytes) -> frames.Effects:
        """Send a frame and return the effects of its answer. Raises BackendError."""
        self.calls += 1
        self._is_called = True
        data = _SIZE.pack(len(frame)) + frame
        try:
            written = os.write(self._input, data)
            while written < len(data):
                written += os.write(self._input, data[written:])
            # An answer comes in one piece if it is no longer than a pipe.
            data = os.read(self._output, _PIPE_BYTES)
            while len(data) < _SIZE.size:
                data += self._read_more()
            missing = _SIZE.size + _SIZE.unpack_from(data)[0] - len(data)
            while missing:
                piece = self._read_more()
                missing -= len(piece)
                data += piece
        except (BrokenPipeError, EOFError) as error:
            if self._hangs:
                raise BackendError(
                    f"Kafka {self.release}: a node ran for {_ANSWER_TIMEOUT_S:g} s without an end"
                ) from error
            raise BackendError(
                f"the JVM of Kafka {self.release} ended: {self._last_words()}"
            ) from error
        finally:
            self._is_called = False
        return frames.read_effects(data, _SIZE.size)

    def _read_more(self) -> bytes:
        piece = os.read(self._output, _PIPE_BYTES)
        if not piece:
            raise EOFError
        return piece

    def _watch(self) -> None:
        """End a JVM that answers no more."""
        before = -1
        while self.is_alive:
            time.sleep(_ANSWER_TIMEOUT_S)
            if self._is_called and self.calls == before:
                self._hangs = True
                self._process.kill()
            before = self.calls

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        told = next((line for line in lines if "Exception" in line or "Error" in line), "")
        return (told or (lines[0] if lines else f"exit code {self._process.poll()}"))[:_SAID_MAX]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            assert pipe is not None
            pipe.close()


@cache
def _command(release: str) -> tuple[str, ...]:
    return tuple(java_command(release))


@contextlib.contextmanager
def on_one_processor(jvms: Iterable[Jvm]) -> Iterator[None]:
    """Keep this thread and those of the JVMs that answer it on one processor, where that is known.

    They take turns, each for some 20 us. On two processors each turn wakes one that sleeps, which
    costs more than the turn, on a virtual machine above all: 145 us of processor time a call
    instead of 60.
    """
    bound: list[int] = []
    free: set[int] = set()
    with contextlib.suppress(OSError, AttributeError):  # no /proc, or no such call
        free = os.sched_getaffinity(0)
        stat = Path("/proc/thread-self/stat").read_text()
        processor = int(stat.rpartition(")")[2].split()[_PROCESSOR_FIELD])
        for thread in (0, *(thread for jvm in jvms for thread in jvm.main_threads)):
            os.sched_setaffinity(thread, {processor})
            bound.append(thread)
    try:
        yield
    finally:
        for thread in bound:
            with contextlib.suppress(OSError):  # of a JVM that ended
                os.sched_setaffinity(thread, free)


_running: dict[str, Jvm] = {}


def jvm_of(release: str) -> Jvm:
    """Return the JVM of a release, which this process starts once.

    Raises BackendError; SettingError where the release or its classes are not there.
    """
    jvm = _running.get(release)
    if jvm is None or not jvm.is_alive:
        jvm = _running[release] = Jvm(_command(release), release)
    return jvm
