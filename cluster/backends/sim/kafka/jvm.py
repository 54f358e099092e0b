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
from collections.abc import Sequence
from functools import cache
from typing import IO, Final

from cluster.backends.sim.kafka import frames
from cluster.backends.sim.kafka.classes import java_command
from cluster.backends.terms import BackendError

_SIZE: Final = struct.Struct(">i")
_PIPE_BYTES: Final = 1 << 16
_ANSWER_TIMEOUT_S: Final = 60.0
"""How long one step of a node may take: a thread that never waits would run for ever."""
_SAID_MAX: Final = 300


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

    def call(self, frame: bytes) -> frames.Effects:
        """Send a frame and return the effects of its answer. Raises BackendError."""
        self.calls += 1
        self._is_called = True
        try:
            self._write(_SIZE.pack(len(frame)) + frame)
            data = self._read()
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
        return frames.read_effects(data)

    def _write(self, data: bytes) -> None:
        written = os.write(self._input, data)
        while written < len(data):
            written += os.write(self._input, data[written:])

    def _read(self) -> bytes:
        """Read an answer, which comes in one piece if it is no longer than a pipe."""
        data = os.read(self._output, _PIPE_BYTES)
        while len(data) < _SIZE.size or len(data) < _SIZE.size + _SIZE.unpack_from(data)[0]:
            piece = os.read(self._output, _PIPE_BYTES)
            if not piece:
                raise EOFError
            data += piece
        return data[_SIZE.size :]

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


_running: dict[str, Jvm] = {}


def jvm_of(release: str) -> Jvm:
    """Return the JVM of a release, which this process starts once.

    Raises BackendError; SettingError where the release or its classes are not there.
    """
    jvm = _running.get(release)
    if jvm is None or not jvm.is_alive:
        jvm = _running[release] = Jvm(_command(release), release)
    return jvm
