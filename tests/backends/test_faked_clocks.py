"""What a program with a faked wall clock sees, beside the clock itself."""

import os
import subprocess
import sys

import pytest

from cluster.backends.machine.clocks import library, variables

pytestmark = pytest.mark.slow

_WAIT = """
import ctypes, errno, time
CLOCK_MONOTONIC = 1
c = ctypes.CDLL(None)
attributes, cond, mutex = (ctypes.create_string_buffer(64) for _ in range(3))
c.pthread_condattr_init(attributes)
c.pthread_condattr_setclock(attributes, CLOCK_MONOTONIC)
c.pthread_cond_init(cond, attributes)
c.pthread_mutex_init(mutex, None)
c.pthread_mutex_lock(mutex)
due = time.monotonic_ns() + 50_000_000
until = (ctypes.c_long * 2)(due // 10**9, due % 10**9)
assert c.pthread_cond_timedwait(cond, mutex, until) == errno.ETIMEDOUT
print(time.monotonic_ns() >= due, round(time.time() - REAL))
"""


@pytest.mark.skipif(library() is None, reason="libfaketime has no library for this platform")
@pytest.mark.parametrize("offset_s", [0, 3600, -3600])
def test_a_wait_on_the_monotonic_clock_lasts_as_long_as_asked(tmp_path, offset_s):
    # CPython waits so for its own lock; where such waits end at once, threads spin.
    file = tmp_path / "offset"
    file.write_text(f"{offset_s:+d}.000000 x1\n")
    program = f"REAL = {file.stat().st_mtime}\n{_WAIT}"
    environment = {**os.environ, **variables(library(), file)}
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    due, off_s = done.stdout.split()
    assert due == "True"
    assert abs(int(off_s) - offset_s) < 300
