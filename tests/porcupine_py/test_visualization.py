"""The page of a history: it shows what was found, is one file, and runs nothing that it is given."""

import io
import json
from html.parser import HTMLParser

import pytest

from porcupine_py import (
    CheckResult,
    LinearizationInfo,
    Model,
    ModelError,
    Operation,
    PartInfo,
    check_operations_timeout,
    check_operations_verbose,
    visualize,
    visualize_path,
)
from porcupine_py.visualization import TEXT_MAX
from porcupine_py.visualization.steps import ORDERS_MAX
from tests.porcupine_py.models import KEY_VALUE, REGISTER, read, write

STALE = [write(200, 0, 100, 0), read(200, 10, 30, 1), read(0, 40, 90, 2)]


class Page(HTMLParser):
    """What is in a page: elements with their attributes, and texts by the element around them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self._open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", data.strip()))

    def named(self, kind):
        return [a for _, a in self.elements if kind in (a.get("class") or "").split()]

    def data(self):
        (text,) = [t for tag, t in self.texts if tag == "script" and t.startswith("[")]
        return json.loads(text)


def page_of(model, history, **bounds):
    result, info = check_operations_verbose(model, history, **bounds)
    output = io.StringIO()
    visualize(model, info, output)
    return result, Page(output.getvalue()), output.getvalue()


def test_an_illegal_history_shows_its_longest_order_and_what_is_refused():
    result, page, _ = page_of(REGISTER, STALE)
    assert result is CheckResult.ILLEGAL
    assert ("h2", "Part 1: not linearizable") in page.texts
    assert [a["data-operation"] for a in page.named("refused") if "data-operation" in a] == ["2"]
    assert page.data() == [
        {
            "orders": [
                {
                    "positions": [0, 1],
                    "points": [153.0, 273.0],
                    "states": ["0", "200", "200"],
                    "refused": [2],
                }
            ],
            "largest": {"2": 0, "0": 0, "1": 0},
        }
    ]
    cells = [text for tag, text in page.texts if tag == "td"]
    steps = ["0", "0", "1", "write(200)", "200", "2", "read() -> 200", "200"]
    assert cells == [*steps, "read() -> 0", "refused here"]


def test_a_legal_history_shows_one_order_of_everything():
    _, page, _ = page_of(REGISTER, STALE[:2])
    assert ("h1", "Ok: linearizable (2 operations in 1 part)") in page.texts
    assert len([tag for tag, _ in page.elements if tag == "circle"]) == 2
    assert not page.named("refused")


def test_each_part_has_a_drawing_of_its_own():
    history = [
        Operation(0, ("put", "x", "a"), 0, ("ok", None), 1),
        Operation(0, ("get", "y", None), 2, ("ok", "b"), 3),
    ]
    _, page, _ = page_of(KEY_VALUE, history)
    assert ("h1", "Illegal: 1 of 2 parts cannot be linearized (2 operations)") in page.texts
    assert ("p", "No operation of 1 could be placed") in page.texts
    assert len(page.named("part")) == 2


def test_an_order_takes_effect_within_every_operation():
    """Also where a call and a return are at one time, and where an operation takes no time."""
    history = [write(1, 0, 10), read(1, 10, 10, 1), read(0, 10, 12, 2), write(2, 10, 10, 3)]
    result, page, _ = page_of(REGISTER, history)
    assert result is CheckResult.OK
    (order,) = page.data()[0]["orders"]
    assert order["points"] == sorted(order["points"])
    ranks = {0: 0, 10: 1, 12: 2}
    for position, x in zip(order["positions"], order["points"], strict=True):
        operation = history[position]
        assert 96 + 120 * ranks[operation.call] < x < 96 + 120 * (ranks[operation.return_] + 1)


def test_a_pending_operation_runs_to_the_end():
    _, page, text = page_of(REGISTER, [write(1, 0, None), read(1, 2, 3, 1)])
    assert len(page.named("pending")) == 1
    assert "call 0, never returned" in text


def test_what_overlaps_in_one_row_is_drawn_side_by_side():
    _, page, _ = page_of(REGISTER, [write(1, 0, 5), write(2, 1, 4), write(3, 6, 7)])
    heights = [a["data-y"] for a in page.named("operation")]
    assert heights[0] == heights[2] != heights[1]


def test_an_unknown_history_says_which_bound_was_met():
    _, page, _ = page_of(REGISTER, STALE, timeout_s=1e-9)
    expected = "Unknown: the bound of 1e-09 s was met (3 operations in 1 part)"
    assert ("h1", expected) in page.texts
    assert ("h2", "Part 1: not decided") in page.texts


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x00\ud800@DATA@"


def test_texts_of_the_users_functions_are_only_texts():
    model = Model(
        init=lambda: 0,
        step=REGISTER.step,
        describe_operation=lambda given, output: EVIL,
        describe_state=lambda state: EVIL,
        describe_operation_metadata=lambda metadata: EVIL,
    )
    result, page, text = page_of(model, STALE)
    assert result is CheckResult.ILLEGAL
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    shown = EVIL.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    shown = shown.replace("\ud800", "\N{REPLACEMENT CHARACTER}")
    assert page.data()[0]["orders"][0]["states"] == [shown] * 3
    assert ("td", shown) in page.texts
    text.encode()


def test_the_page_loads_nothing():
    _, page, text = page_of(REGISTER, STALE)
    policies = [a["content"] for tag, a in page.elements if "http-equiv" in a]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"]
    assert not [a for _, a in page.elements if "src" in a or "href" in a]
    assert "url(" not in text
    assert "@import" not in text


def test_texts_are_cut():
    model = Model(init=lambda: 0, step=REGISTER.step, describe_state=lambda state: "x" * 10**6)
    _, page, text = page_of(model, STALE)
    assert len(page.data()[0]["orders"][0]["states"][0]) == TEXT_MAX
    assert len(text) < 20_000


def test_no_more_orders_are_shown_than_a_page_holds():
    history = tuple(write(i, 0, 1, i) for i in range(ORDERS_MAX + 60))
    orders = tuple((i,) for i in range(len(history)))
    info = LinearizationInfo((PartInfo(history, False, orders),))
    output = io.StringIO()
    visualize(REGISTER, info, output)
    page = Page(output.getvalue())
    assert len(page.data()[0]["orders"]) == ORDERS_MAX
    (legend,) = [text for tag, text in page.texts if text.startswith("The longest order")]
    assert legend.endswith(f"{ORDERS_MAX} orders are shown, 60 shorter ones are not.")


def test_the_page_is_the_same_each_time(tmp_path):
    pages = set()
    for name in ("a.html", "b.html"):
        _, info = check_operations_verbose(REGISTER, STALE)
        visualize_path(REGISTER, info, tmp_path / name)
        pages.add((tmp_path / name).read_bytes())
    assert len(pages) == 1


def test_another_model_than_the_one_that_was_checked_is_noticed():
    _, info = check_operations_verbose(REGISTER, STALE)
    other = Model(init=lambda: 0, step=lambda state, given, output: (False, state))
    with pytest.raises(ModelError, match="accepted at this place"):
        visualize(other, info, io.StringIO())
    assert check_operations_timeout(other, STALE, 0) is CheckResult.ILLEGAL
