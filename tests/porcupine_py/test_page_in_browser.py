"""The page of a history in a real browser: pointing and clicking show other orders."""

from pathlib import Path

import pytest

from porcupine_py import check_operations_verbose, visualize_path
from tests.porcupine_py.models import REGISTER, read, write

pytestmark = pytest.mark.browser

CHROMIUM = Path("/usr/bin/chromium")
HISTORY = [write(1, 0, 10, 0), write(2, 0, 10, 1), read(1, 11, 20, 2), read(2, 11, 20, 3)]
"""Illegal: whichever write was last, one of the reads is wrong."""


@pytest.fixture
def page(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    _, info = check_operations_verbose(REGISTER, HISTORY)
    visualize_path(REGISTER, info, tmp_path / "page.html")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox"], timeout=300_000
        )
        page = browser.new_page()
        page.set_default_timeout(300_000)
        page.problems, page.asked = [], []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.set_viewport_size({"width": 1000, "height": 700})
        page.goto((tmp_path / "page.html").as_uri())
        yield page
        browser.close()


def steps(page):
    return page.locator("tbody tr").all_text_contents()


def test_pointing_and_clicking_show_the_order_that_holds_an_operation(page):
    first = ["00", "1write(1)1", "2write(2)2", "3read() -> 22", "read() -> 1refused here"]
    other = ["00", "1write(2)2", "2write(1)1", "3read() -> 11", "read() -> 2refused here"]
    one, two = (page.locator(f"[data-operation='{i}']") for i in (2, 3))
    assert page.locator(".line circle").count() == 3
    assert steps(page) == first
    assert "refused" in one.get_attribute("class")
    one.hover()
    assert steps(page) == other
    page.mouse.move(1, 1)
    assert steps(page) == first
    one.click()
    page.mouse.move(1, 1)
    assert steps(page) == other
    assert "kept" in one.get_attribute("class")
    assert "refused" in two.get_attribute("class")
    page.locator("svg").first.click(position={"x": 2, "y": 2})
    assert steps(page) == first
    assert page.problems == []
    assert [url.partition(":")[0] for url in page.asked] == ["file"]
