"""The steps shown before a run starts: from the first second, and at most one a second."""

import io

from rich.console import Console

from harness.terminal import progress
from harness.terminal.progress import Steps


def lines_shown(monkeypatch, moments, *, at_once):
    """Lines of a plain console for a step at each of these moments, in seconds."""
    stream = io.StringIO()
    clock = iter([0.0, 0.0, *moments])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    shower = Steps(Console(file=stream))
    with shower.show(at_once=at_once):
        for moment in moments:
            shower.step(f"step at [{moment}]")
    return stream.getvalue().splitlines()


def test_the_first_step_shows_at_once_and_further_ones_once_a_second(monkeypatch):
    lines = lines_shown(monkeypatch, [0.0, 0.2, 1.1, 1.5, 2.2], at_once=True)
    assert lines == [
        "  0.0 s | step at [0.0]",
        "  1.1 s | step at [1.1]",
        "  2.2 s | step at [2.2]",
    ]


def test_what_takes_less_than_a_second_shows_nothing(monkeypatch):
    assert lines_shown(monkeypatch, [0.0, 0.2, 0.9], at_once=False) == []


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_the_step_under_way_and_clears_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    shower = Steps(Console(file=stream, force_terminal=True, width=80))
    with shower.show(at_once=True):
        shower.step("probing [partition]")
    assert "probing [partition]" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K"), "the line is cleared"
