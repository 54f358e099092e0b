"""Output to closed pipes, closed descriptors and full disks; signals."""

import contextlib
import gc
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import click
import pytest
from rich.console import Console

from harness.signals import interrupt
from harness.signals.interrupt import interruptible, signals_interrupt, stopping
from harness.terminal import progress
from harness.terminal.answers import Shown
from harness.terminal.output import guard
from tests.harness.test_cli import write_history

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
_MAIN = "import sys; from harness.cli import main; main(sys.argv[1:])"
_FAKE_RUN = textwrap.dedent("""
    import sys
    from cluster.backends.local import local_backend
    from harness.run import display
    from harness.cli import main
    from tests.harness.fake_cluster import FakeCluster

    display._LINE_EVERY_S = 0.05
    local_backend.LocalBackend = lambda *_, **__: FakeCluster()
    main(sys.argv[1:])
""")


def start(*arguments, script=_MAIN, **options):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        **options,
    )


def ended(*arguments, **options):
    """Run a command; its exit code and stderr."""
    process = start(*arguments, stderr=subprocess.PIPE, **options)
    _, stderr = process.communicate(timeout=600)
    return process.returncode, stderr


@contextlib.contextmanager
def pipe_without_a_reader():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:  # noqa: PTH123  (a descriptor)
        yield stream


def test_a_listing_whose_reader_leaves_ends_as_by_sigpipe_and_quietly():
    with pipe_without_a_reader() as stdout:
        assert ended("list", "workloads", stdout=stdout) == (141, "")


def test_a_listing_onto_a_full_disk_is_one_line():
    with open("/dev/full", "w") as stdout:  # noqa: PTH123
        code, stderr = ended("list", "workloads", stdout=stdout)
    assert (code, stderr) == (2, "kraftprobe: <stdout>: No space left on device\n")


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
def test_a_command_without_streams_ends_well(closed):
    def close():
        for number in closed:
            os.close(number)

    process = start("list", "workloads", stderr=subprocess.PIPE, preexec_fn=close)
    _, stderr = process.communicate(timeout=600)
    assert (process.returncode, stderr) == (0, "")


def test_no_file_becomes_the_stdout_that_was_closed(tmp_path):
    script = textwrap.dedent("""
        import os, sys
        from harness.terminal.output import guard
        with guard():
            print(os.open(sys.argv[1], os.O_CREAT), file=sys.stderr)
    """)
    code, stderr = ended(tmp_path / "journal", script=script, preexec_fn=lambda: os.close(1))
    assert code == 0, stderr
    assert int(stderr) > 2


@pytest.mark.parametrize(("read", "code"), [("b", 0), ("a", 1)])
def test_a_verdict_without_a_reader_is_still_the_exit_code(tmp_path, read, code):
    path = write_history(tmp_path / "h.jsonl", read=read)
    with pipe_without_a_reader() as stdout:
        assert ended("check", path, stdout=stdout) == (code, "")


def test_a_verdict_onto_a_full_disk_is_the_exit_code_and_one_line(tmp_path):
    path = write_history(tmp_path / "h.jsonl", read="a")
    with open("/dev/full", "w") as stdout:  # noqa: PTH123
        code, stderr = ended("check", path, stdout=stdout)
    assert code == 1
    assert stderr == "kraftprobe: stdout could not be written: No space left on device\n"


def test_an_error_without_a_reader_keeps_its_exit_code():
    with pipe_without_a_reader() as stderr:
        process = start("list", "faultz", stderr=stderr)
        assert process.wait(600) == 2


@pytest.fixture
def run(tmp_path):
    """Starts a run of fake nodes; it is waited for until it is under way."""
    started = []

    def begin(duration_s=60, **options):
        process = start(
            *("run", "--duration", duration_s, "--runs", tmp_path, "--faults", "none"),
            script=_FAKE_RUN,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        started.append(process)
        while not (found := list(tmp_path.glob("smoke/*/history.jsonl"))) or (
            found[0].stat().st_size < 2000
        ):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        return process, found[0]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def phases(journal):
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    return [event["value"]["name"] for event in events if event["f"] == "phase"]


STOPPED = ["start", "faults", "stop"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_a_run_cleanly_and_keeps_its_journal(run, number):
    process, journal = run()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == 130, stderr
    assert stderr.splitlines()[-1] == "kraftprobe: interrupted"
    assert "Traceback" not in stderr
    assert phases(journal) == STOPPED


def test_a_closed_pipe_of_the_progress_stops_a_run_cleanly(run):
    process, journal = run()
    process.stderr.close()
    assert process.wait(600) == 130
    assert process.stdout.read() == ""
    assert phases(journal) == STOPPED
    process.stderr = None


def test_a_repeated_sighup_does_not_hurry(run):
    process, _ = run()
    for _ in range(5):
        process.send_signal(signal.SIGHUP)
        time.sleep(0.002)
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == 130, stderr
    assert "stopping: healing" in stderr
    assert "hurrying" not in stderr


def test_a_run_under_nohup_goes_on_without_its_terminal(run):
    process, journal = run(
        2, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None
    )
    process.send_signal(signal.SIGHUP)
    _, stderr = process.communicate(timeout=600)
    assert process.returncode != 130, stderr
    assert phases(journal)[-3:] == ["final-reads", "stop", "evidence"]


def test_a_closed_pipe_ends_simulated_work_like_a_signal(monkeypatch):
    with pipe_without_a_reader() as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        with guard(), pytest.raises(KeyboardInterrupt), interruptible():  # noqa: PT012
            click.echo("progress", err=True)
            pytest.fail("it went on")


def test_a_pipe_closed_before_ends_it_at_once(monkeypatch):
    with pipe_without_a_reader() as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        with guard() as output:
            output.finish()
            click.echo("progress", err=True)
            with pytest.raises(KeyboardInterrupt), interruptible():
                pytest.fail("it began")


class Collected:
    """Interrupts the process while it is collected as garbage."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_a_finalizer_swallows_strikes_again(capfd):
    Collected()
    with pytest.raises(KeyboardInterrupt), signals_interrupt():  # noqa: PT012  (it goes on)
        gc.collect()
        time.sleep(30)
    assert capfd.readouterr().err == ""


def test_an_interrupt_that_strikes_before_the_hook_was_left_strikes_again(monkeypatch, capfd):
    monkeypatch.setattr(interrupt, "_AGAIN_S", 1e-6)
    Collected()
    with pytest.raises(KeyboardInterrupt), signals_interrupt():  # noqa: PT012  (it goes on)
        gc.collect()
        time.sleep(30)
    assert "Exception ignored" not in capfd.readouterr().err


def test_a_bar_shows_names_of_plans_as_they_are(monkeypatch):
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "console_of", lambda _: console)
    monkeypatch.setattr(progress, "can_redraw", lambda _: True)
    with progress.progress_bar("searching", 1.0, Shown.LINES) as bar:
        bar.at(0.5, "1 worlds tried, [/red] 1")
    assert "1 worlds tried, [/red] 1" in terminal.getvalue()


def test_work_that_can_end_early_is_asked_to(monkeypatch):
    asked = []
    with pipe_without_a_reader() as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        stop = stopping(lambda: asked.append("stop"))
        with guard(), pytest.raises(KeyboardInterrupt), stop:  # noqa: PT012  (the loop, too)
            for _ in range(3):
                click.echo("a smaller one")
            asked.append("done")
    assert asked == ["stop", "done"]


def test_a_file_of_holes_is_one_line(tmp_path):
    holes = tmp_path / "holes.jsonl"
    with holes.open("wb") as file:
        file.truncate(20 << 30)
    code, stderr = ended("check", holes)
    assert code == 2
    assert [line.partition(": ")[2].partition(":")[0] for line in stderr.splitlines()] == [
        str(holes)
    ]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_check_in_the_middle_of_a_large_file(tmp_path, number):
    large = tmp_path / "large.jsonl"
    rows = (
        f'{{"index":{i},"time":{i},"process":{i // 2 % 5},"type":"{("invoke", "ok")[i % 2]}",'
        f'"f":"write","value":{i // 2}}}\n'
        for i in range(1_000_000)
    )
    large.write_text("".join(rows))
    process = start("check", large, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    descriptors = Path(f"/proc/{process.pid}/fd")
    while not any(path.resolve() == large for path in descriptors.iterdir()):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=600)
    assert (process.returncode, stdout, stderr) == (130, "", "kraftprobe: interrupted\n")
