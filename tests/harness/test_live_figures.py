import io

import pytest
from rich.console import Console

from checkers.history import Event, EventType
from harness.run.display import Display, LiveFigures, plain_line
from harness.terminal import output

S = 1_000_000_000


class Terminal(io.StringIO):
    def isatty(self):
        return True


def fed(*events):
    live = LiveFigures()
    for index, (time_s, process, type_, f, value) in enumerate(events):
        live.take(Event(index, int(time_s * S), process, EventType(type_), f, None, value))
    return live


def test_rate_and_latency_are_of_the_last_five_seconds():
    events = []
    for number in range(100):
        events.append((number / 8, 0, "invoke", "read", None))
        events.append((number / 8 + 1 / 512, 0, "ok", "read", None))
    figures = fed(*events).figures(int(99.5 / 8 * S))
    assert figures.ok == 100
    assert figures.ok_per_s == 40 / 5
    assert (figures.p50_ms, figures.p99_ms) == (1000 / 512, 1000 / 512)


def test_no_latency_is_shown_where_nothing_is_answered():
    figures = fed((0, 0, "invoke", "read", None), (2, 0, "info", "read", None)).figures(2 * S)
    assert (figures.p50_ms, figures.info) == (None, 1)
    assert "p50 -" in plain_line(figures)


def test_leader_faults_phase_and_ends_are_shown():
    inject = {"phase": "inject", "entry": 0, "targets": ["n2"], "verified": True}
    heal = {"phase": "heal", "entry": 0, "targets": ["n2"], "verified": True}
    before = [
        (0, "nemesis", "ok", "phase", {"name": "faults"}),
        (1, "nemesis", "ok", "leader", {"leader": "n2", "epoch": 4}),
        (2, "nemesis", "ok", "kill", inject),
        (3, "nemesis", "ok", "leader", {"leader": "n1", "epoch": 5}),
        (3, "nemesis", "info", "crash", {"node": "n3"}),
    ]
    line = plain_line(fed(*before).figures(4 * S))
    assert "faults |" in line
    assert "leader n1 epoch 5 (1 changes)" in line
    assert "faults: kill n2" in line
    assert "ended: n3" in line
    assert "faults: none" in plain_line(
        fed(*before, (5, "nemesis", "ok", "kill", heal)).figures(6 * S)
    )


def test_a_fault_that_is_not_verified_healed_stays_shown():
    inject = {"phase": "inject", "entry": 0, "targets": ["n2"], "verified": True}
    heal = {"phase": "heal", "entry": 0, "targets": ["n2"], "verified": False}
    live = fed((2, "nemesis", "ok", "kill", inject), (5, "nemesis", "info", "kill", heal))
    assert live.figures(6 * S).faults == ("kill n2",)


def shown(*, terminal):
    out = Terminal() if terminal else io.StringIO()
    console = Console(file=out, _environ={"TERM": "xterm"}, width=100)
    with Display(console) as display:
        display.show(
            fed((0, "nemesis", "ok", "leader", {"leader": "[red]n2", "epoch": 4})).figures(S)
        )
    return out.getvalue()


def test_a_terminal_gets_a_line_that_is_taken_away_again():
    text = shown(terminal=True)
    assert "\x1b[2K" in text
    assert "[red]n2 epoch 4" in text


def test_anything_else_gets_plain_lines():
    text = shown(terminal=False)
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "[red]n2 epoch 4" in text


@pytest.mark.parametrize(
    ("out", "environment", "live"),
    [
        (Terminal, {"TERM": "xterm-256color"}, True),
        (Terminal, {"TERM": "dumb"}, False),
        (io.StringIO, {"TERM": "xterm-256color"}, False),
        (io.StringIO, {"TERM": "xterm-256color", "FORCE_COLOR": "1"}, False),
    ],
)
def test_only_a_terminal_that_can_redraw_has_its_line_redrawn(out, environment, live):
    console = Console(file=out(), _environ=environment, width=100)
    with Display(console) as display:
        display.show(fed((0, "nemesis", "ok", "phase", {"name": "faults"})).figures(S))
        shown_now = console.file.getvalue()
    assert ("\x1b" in shown_now) == live
    assert "faults | 0 ok/s" in shown_now


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"TERM": "xterm"}, None),
        ({"TERM": "xterm", "NO_COLOR": ""}, None),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, True),
    ],
)
def test_the_environment_decides_over_colours(monkeypatch, environment, wanted):
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.wants_colour() is wanted
