"""What a program with a faked wall clock sees, beside the clock itself."""

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from cluster.backends.abilities import ClockSetting
from cluster.backends.base import BackendError
from cluster.backends.localhost import LocalHost
from cluster.backends.machine.clocks import CLOCK_FILE, FakedClocks, library, variables
from cluster.backends.machine.equip import ProcessLimits
from cluster.backends.machine.inside import clocks, clockwork

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(library() is None, reason="the library of faked clocks was not compiled"),
]
HOUR_S = 3600

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
print(time.monotonic_ns() >= due, round(time.time()))
"""
_THREADS = """
import ctypes, threading, time
c = ctypes.CDLL(None)
HOUR = 3600
class Pair(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("rest", ctypes.c_long)]
def clock():
    at = Pair(); c.clock_gettime(0, ctypes.byref(at)); return at.s
def day():
    at = Pair(); c.gettimeofday(ctypes.byref(at), None); return at.s
def utc():
    at = Pair(); c.timespec_get(ctypes.byref(at), 1); return at.s
def plain():
    return c.time(None)
c.time.restype = ctypes.c_long
looks, strange, begin = [0] * 4, [], threading.Event()
def look(number, of):
    begin.wait()
    while time.monotonic() < END:
        off = of() - time.monotonic() - REAL
        looks[number] += 1
        if min(abs(off - HOUR), abs(off + HOUR)) > 60:
            strange.append((number, off))
REAL = float(ORIGIN)
threads = [threading.Thread(target=look, args=each) for each in enumerate((clock, day, utc, plain))]
for thread in threads: thread.start()
print("ready", flush=True)
END = time.monotonic() + 2.0
begin.set()
for thread in threads: thread.join()
print(min(looks), strange[:3])
"""


def program(source, file, preloaded=None):
    environment = {**os.environ, **variables(preloaded or library(), file)}
    command = [sys.executable, "-I", "-S", "-c", source]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("offset_s", [0, HOUR_S, -HOUR_S])
def test_a_wait_on_the_monotonic_clock_lasts_as_long_as_asked(tmp_path, offset_s):
    # CPython waits so for its own lock; where such waits end at once, threads spin.
    file = tmp_path / "offset"
    clocks.store(str(file), offset_s * 10**9)
    output, _ = program(_WAIT, file).communicate()
    due, at_s = output.split()
    assert due == "True"
    assert abs(int(at_s) - time.time() - offset_s) < 300


def test_threads_see_one_of_two_clocks_and_never_the_true_one(tmp_path):
    """While the clock jumps between an hour ahead and an hour behind, by all ways to look at it."""
    file = tmp_path / "offset"
    clocks.store(str(file), HOUR_S * 10**9)
    source = f"ORIGIN = {time.time() - time.monotonic()}\n{_THREADS}"
    with program(source, file) as looking:
        assert looking.stdout.readline() == "ready\n"
        sign = 1
        while looking.poll() is None:
            sign = -sign
            clocks.store(str(file), sign * HOUR_S * 10**9)
        least, strange = looking.stdout.read().strip().split(" ", 1)
    assert int(least) > 0
    assert strange == "[]"


def test_a_program_without_a_file_has_the_true_clock(tmp_path):
    output, _ = program("import time; print(time.time())", tmp_path / "none").communicate()
    assert abs(float(output) - time.time()) < 300


def test_a_process_keeps_a_library_that_was_built_anew_but_no_file_that_was(tmp_path):
    preloaded, file = tmp_path / "clock.so", tmp_path / "offset"
    shutil.copy(library(), preloaded)
    clocks.store(str(file), HOUR_S * 10**9)
    with program("print(flush=True); input()", file, preloaded) as waiting:
        waiting.stdout.readline()
        seen = []
        for made in (preloaded, file):
            content = made.read_bytes()
            made.unlink()
            made.write_bytes(content)
            seen.append(clocks.see(waiting.pid, {}))
        waiting.stdin.write("\n")
    assert [look["faked"] for look in seen] == [True, False]
    assert round(seen[0]["wall_ms"] / 1000) == HOUR_S


def test_a_process_that_wrote_over_its_environment_is_known_by_what_it_has_in_its_memory(tmp_path):
    file, folder = tmp_path / "offset", str(Path(__file__).parent)
    source = f"import sys\nsys.path = [{folder!r}, *sys.path]\nimport fake_node\n"
    clocks.store(str(file), HOUR_S * 10**9)
    own = variables(library(), file)
    with program(f"{source}fake_node.write_title()\nprint(flush=True)\ninput()", file) as waiting:
        waiting.stdout.readline()
        seen = clocks.see(waiting.pid, own)
        other = clocks.see(waiting.pid, own | {"KRAFTPROBE_CLOCK_OFFSET": "/other"})
        waiting.stdin.write("\n")
    assert (seen["faked"], round(seen["wall_ms"] / 1000)) == (True, HOUR_S)
    assert not other["faked"]


def test_a_program_of_go_reads_the_kernels_clock_though_it_has_the_library(tmp_path):
    """Its runtime does; here is a copy of a program that is linked as Go's are when they use C."""
    file, copy = tmp_path / "offset", tmp_path / "program"
    shutil.copy(shutil.which("sleep"), copy)
    clocks.store(str(file), HOUR_S * 10**9)
    seen = []
    for content in (b"", b"\xff Go buildinf:\x08\x02"):
        with copy.open("ab") as appended:
            appended.write(content)
        seen.append(looked_at([copy, "60"], file))
    assert seen == [True, False]


def test_what_a_wrapper_starts_must_have_the_library_as_well(tmp_path):
    file = tmp_path / "offset"
    clocks.store(str(file), HOUR_S * 10**9)
    plain, without = "sleep 60; true", "env -u LD_PRELOAD sleep 60; true"
    assert looked_at(["sh", "-c", plain], file)
    assert not looked_at(["sh", "-c", without], file)


def looked_at(command, file):
    """Whether a process, with all of its group, is taken to have a faked clock."""
    environment = {**os.environ, **variables(library(), file)}
    with subprocess.Popen(command, env=environment, start_new_session=True) as started:
        try:
            name = "sleep" if command[0] == "sh" else "program"
            while not any(sleeps(pid, name) for pid in clocks._group(started.pid)):
                time.sleep(0.01)
            return clocks.see(started.pid, {})["faked"]
        finally:
            os.killpg(started.pid, signal.SIGKILL)


def sleeps(pid, name):
    return f"({name}) S" in Path(f"/proc/{pid}/stat").read_text()


def test_a_clock_that_drifts_is_moved_until_its_file_is_gone(tmp_path):
    file = tmp_path / "offset"
    clocks.store(str(file), 0)
    words = [str(file), "1000.0", "2.0", "0.0"]
    moving = subprocess.Popen([sys.executable, "-I", "-S", clockwork.__file__, *words])
    seen = [int.from_bytes(file.read_bytes(), sys.byteorder, signed=True)]
    while len(seen) < 3:
        now = int.from_bytes(file.read_bytes(), sys.byteorder, signed=True)
        seen += [now] if now > seen[-1] else []
    assert seen[1] >= 10**9
    file.unlink()
    assert moving.wait(timeout=600) == 0


async def refuse(*_, **__):
    raise BackendError("the machine is too busy")


async def nobody(_):
    return None


@pytest.fixture
def machine(tmp_path):
    return LocalHost("n1", tmp_path, {}, nobody)


async def fails_once(act, monkeypatch):
    with monkeypatch.context() as busy:
        busy.setattr("cluster.backends.machine.clocks.run_program", refuse)
        busy.setattr("cluster.backends.machine.equip.run_program", refuse)
        with pytest.raises(BackendError):
            await act()
    await act()


def test_a_clock_that_could_not_be_set_right_is_by_the_next_heal(machine, monkeypatch):
    file = str(machine.folder / CLOCK_FILE)

    async def body():
        faked = FakedClocks({"n1": machine}, library())
        await faked.prepare("n1")
        await faked.set("n1", ClockSetting(rate=2.0))
        await fails_once(partial(faked.set, "n1", ClockSetting()), monkeypatch)

    try:
        asyncio.run(body())
        assert clocks.helpers(file) == []
    finally:
        clocks.end(file)


def test_what_cannot_be_preloaded_from_its_folder_is_refused_with_the_reason(machine, tmp_path):
    copy = shutil.copy(library(), tmp_path / "a b.so")
    probe = asyncio.run(FakedClocks({"n1": machine}, copy).probe())
    assert not probe.possible
    assert (str(copy) in probe.reason, probe.remedy != "") == (True, True)


def test_a_limit_that_could_not_be_given_back_is_by_the_next_heal(machine, monkeypatch):
    own, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def body():
        limits = ProcessLimits({"n1": machine})
        monkeypatch.setattr(limits, "_prlimit", acts_and_fails(limits._prlimit, own - 1))
        with pytest.raises(BackendError):
            await limits.set("n1", "descriptors", own - 1)
        await fails_once(partial(limits.set, "n1", "descriptors", None), monkeypatch)

    with subprocess.Popen(["sleep", "60"]) as sleeping:
        monkeypatch.setattr(LocalHost, "pid", lambda _: answer(sleeping.pid))
        asyncio.run(body())
        assert resource.prlimit(sleeping.pid, resource.RLIMIT_NOFILE)[0] == own
        sleeping.kill()


async def answer(value):
    return value


def acts_and_fails(prlimit, at):
    """As where the answer of a starved helper comes too late."""

    async def act(node, pid, name, value):
        seen = await prlimit(node, pid, name, value)
        if value == at:
            await refuse()
        return seen

    return act
