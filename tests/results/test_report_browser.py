"""The report in a real browser: everything that matters can be seen, nothing goes wrong."""

import datetime as dt
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urljoin

import pytest
from factory import make_run
from playwright.sync_api import sync_playwright

from checkers.history import pair
from results.catalogue.index import render_index, write_index
from results.catalogue.rows import catalogue
from results.judge.pipeline import judge
from results.report.page import write_report

pytestmark = pytest.mark.browser

CHROMIUM = Path("/usr/bin/chromium")
TIMEOUT_MS = 300_000
"""Of each step: a busy machine takes its time."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=FLAGS, timeout=TIMEOUT_MS
        )
        yield running
        running.close()


@pytest.fixture(scope="module", params=["good", "bad"])
def stored(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    if request.param == "good":
        store = make_run(root, run="good")
    else:
        store = make_run(root, run="bad", stale_reads=1, lost_on="n3", mutant="M15")
    write_report(store, judge(store))
    return store


@pytest.fixture(scope="module")
def stale(tmp_path_factory):
    """A run with one stale read, and its report."""
    store = make_run(tmp_path_factory.mktemp("stale"), stale_reads=1)
    write_report(store, judge(store))
    return store


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run that passed and one that failed, and their reports."""
    root = tmp_path_factory.mktemp("folder")
    for name, options in (("good", {}), ("bad", {"stale_reads": 1, "mutant": "M15"})):
        store = make_run(root, run=name, **options)
        write_report(store, judge(store))
    return root


@pytest.fixture
def new_page(browser):
    """Open pages, which are closed in the end and have said nothing is wrong until then."""
    pages, problems = [], []

    def open_(url, **options):
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 900}, **options})
        page.set_default_timeout(TIMEOUT_MS)
        pages.append(page)
        page.on("console", lambda m: problems.append(m.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(url)
        return page

    yield open_
    assert problems == []
    for page in pages:
        page.close()


@pytest.fixture
def opened(new_page):
    """Open the report of a run."""

    def open_(store, *, drawn=True, **options):
        page = new_page(store.report_path.as_uri(), **options)
        if drawn:
            page.wait_for_selector("#chart[data-drawn]")
        return page

    return open_


PAINTED = """names => {
  const canvas = document.querySelector('#chart canvas');
  const style = getComputedStyle(document.documentElement);
  const copy = document.createElement('canvas');
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const pen = copy.getContext('2d', { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  const found = new Set();
  for (let at = 0; at < data.length; at += 4) {
    found.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
  }
  return names.map(name => found.has(parseInt(style.getPropertyValue(name).trim().slice(1), 16)));
}"""


def colours(page, *names):
    """Whether something in the chart has each of these colours."""
    return page.evaluate(PAINTED, list(names))


def window(page):
    """The part of the run that the chart shows, in seconds."""
    chart = page.locator("#chart")
    return float(chart.get_attribute("data-from")), float(chart.get_attribute("data-to"))


def eventually(page, condition):
    """Wait until it holds. (Playwright's own wait evaluates in the page, and its policy forbids it.)"""
    for _ in range(TIMEOUT_MS // 50):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never became true: {condition}")


def test_the_page_shows_verdict_checks_and_chart_without_an_error(opened, stored):
    page, requests = opened(stored), []
    page.on("request", lambda request: requests.append(request.url))
    page.reload()
    page.wait_for_selector("#chart[data-drawn]")
    bad = stored.folder.name == "bad"
    assert page.inner_text("#verdict") == ("FAIL" if bad else "PASS")
    top = page.locator("#verdict").bounding_box()
    assert top["y"] + top["height"] < 200
    assert page.locator("#mutant").count() == bad
    assert page.locator("article.check").count() == 10
    assert page.locator("#checks svg .bar").count() >= (4 if bad else 0)
    operations = len(pair(stored.events()))
    assert page.get_attribute("#chart", "data-drawn") == str(operations)
    assert "(no key)" not in page.locator("#key option").all_text_contents()
    assert page.locator("#key-picture g").count() > 0
    chart = page.locator("#chart").bounding_box()
    assert chart["width"] > 900
    assert chart["height"] > 500
    assert colours(page, "--ok", "--leader", "--fault1") == [True, True, True]
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200
    assert requests == [stored.report_path.as_uri()]


def test_a_change_of_scheme_redraws_the_chart_in_its_colours(opened, stored):
    page = opened(stored, color_scheme="light")
    assert colours(page, "--leader") == [True]
    page.emulate_media(color_scheme="dark")
    eventually(page, f"({PAINTED})(['--leader'])[0]")


def test_without_scripts_the_verdict_and_its_evidence_are_there(opened, stored):
    page = opened(stored, drawn=False, java_script_enabled=False)
    bad = stored.folder.name == "bad"
    assert page.inner_text("#verdict") == ("FAIL" if bad else "PASS")
    assert page.locator("#checks .timeline svg").count() == (3 if bad else 0)
    assert "kraftprobe run" in page.inner_text("#command")
    assert page.locator(":is(button, input, select, canvas):visible").count() == 0
    assert "This chart needs scripts" in page.inner_text("#time")


def test_on_a_narrow_screen_nothing_hangs_over(opened, stored):
    page = opened(stored)
    page.set_viewport_size({"width": 420, "height": 800})
    eventually(page, "document.documentElement.scrollWidth <= 420")


def test_the_way_to_a_violation_can_be_seen_in_the_chart(opened, stale):
    page = opened(stale)
    begin, end = window(page)
    page.click("a.zoom")
    assert window(page)[1] - window(page)[0] < (end - begin) / 2
    assert "operations began" in page.inner_text("#window")
    page.click("#controls button[data-move=whole]")
    assert window(page) == (begin, end)
    page.click("a[href='#violation']")
    assert page.locator("#violation").bounding_box()["y"] < 900


def test_the_chart_is_zoomed_by_mouse_and_by_keyboard_and_says_what_a_dot_is(opened, stale):
    page = opened(stale)
    begin, end = window(page)
    canvas = page.locator("#chart canvas")
    canvas.focus()
    page.keyboard.press("+")
    assert window(page)[1] - window(page)[0] == pytest.approx((end - begin) / 2)
    page.keyboard.press("ArrowLeft")
    assert window(page)[0] == begin
    page.keyboard.press("0")
    assert window(page) == (begin, end)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 250)
    page.mouse.up()
    assert begin < window(page)[0] < window(page)[1] < end
    titles = set()
    for down in (13, 39, 65, *range(180, 440, 4)):
        page.mouse.move(box["x"] + 500, box["y"] + down)
        titles.add(page.locator("#chart .tip").text_content())
    assert any("leads epoch" in title for title in titles)
    assert any(title.startswith("operation ") for title in titles)
    page.click("#controls button[data-series=ok]")
    assert page.get_attribute("#controls button[data-series=ok]", "aria-pressed") == "false"
    page.dblclick("#chart canvas", position={"x": 300, "y": 200})
    assert window(page) == (begin, end)


def test_the_violated_key_is_shown_over_time_and_gone_through_by_keyboard(opened, stale):
    page, checks = opened(stale), stale.read_results().checks
    (anomaly,) = [a for c in checks if c.checker == "linearizable" for a in c.anomalies]
    assert page.inner_text("#key option:checked") == f"{anomaly['key']}, violated"
    suspects = page.locator("#key-picture .suspect").count()
    assert 0 < suspects <= len(anomaly["window"])
    words = page.locator("#key-words li").all_text_contents()
    assert sum("of the violation" in line for line in words) == suspects
    assert any("partition on n2" in line for line in words)
    assert any("leads epoch" in line for line in words)
    epochs = {line.partition("leads ")[2] for line in words}
    labels = page.locator("#key-picture .label").all_text_contents()
    of_leaders = [label for label in labels if label.startswith("epoch")]
    assert of_leaders
    assert all(label.endswith("…") or label in epochs for label in of_leaders)
    page.locator("#key-picture g[tabindex='0']").focus()
    before = page.inner_text("#key-detail")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#key-detail") not in ("", before)
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#key-detail") == before
    page.select_option("#key", label=next(k for k in ("k00", "k01") if k != anomaly["key"]))
    assert page.locator("#key-picture .suspect").count() == 0
    shown = page.inner_text("#key-shown")
    page.click("#one-key button[data-by='30']")
    assert page.inner_text("#key-shown") != shown


def test_operations_are_found_by_what_a_row_shows(opened, stale):
    page = opened(stale)
    assert page.locator("#matches tbody tr").count() == 0
    operations = pair(stale.events())
    wanted = [o for o in operations if o.process == 1 and o.key == "k03" and o.type == "ok"]
    page.fill("#search", "process 1 k03 ok")
    page.wait_for_selector("#matches tbody tr")
    assert page.inner_text("#found").startswith(f"{len(wanted)} of {len(operations)} operations")
    assert page.inner_text("#matches tbody tr td") == str(wanted[0].index)
    page.fill("#search", "")
    page.click("a.zoom")
    page.check("#in-chart")
    page.wait_for_selector("#matches tbody tr")
    assert 0 < int(page.inner_text("#found").split()[0]) < len(operations)
    page.fill("#search", "nothing-like-this")
    assert page.inner_text("#found").startswith("0 of")


def test_runs_of_an_index_are_found_and_compared(new_page, folder):
    page = new_page(write_index(folder, catalogue(folder)).as_uri())
    page.fill("#search", "m15 fail")
    assert page.inner_text("#found") == "1 of 2"
    assert page.locator("#runs tbody tr:visible").count() == 1
    page.fill("#search", "")
    assert page.is_disabled("#compare")
    for box in page.locator("#runs input").all():
        box.check()
    page.click("#compare")
    assert page.inner_text("#difference thead tr").split() == ["differs", "bad", "good"]
    assert "mutant" in page.inner_text("#difference tbody")
    assert "workload" not in page.inner_text("#difference tbody")
    left = "document.querySelector({!r}).getBoundingClientRect().left"
    assert page.evaluate(left.format("footer")) == page.evaluate(left.format("h1"))
    page.set_viewport_size({"width": 420, "height": 800})
    eventually(page, "document.documentElement.scrollWidth <= 420")


LINES_OF = """cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return new Set(Array.from(range.getClientRects(), box => box.top)).size;
}"""


def test_on_a_narrow_screen_no_word_of_a_table_is_broken(opened, stored):
    page = opened(stored, drawn=False)
    page.set_viewport_size({"width": 390, "height": 800})
    cells = page.locator("#faults td:first-child").all()
    assert cells
    assert {cell.evaluate(LINES_OF) for cell in cells} == {1}


PAPER_PX = 703
"""Width of A4 without the margins of a printed page."""
CUT = """() => Array.from(document.querySelectorAll("main *"))
  .filter(element => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(element => element.tagName + " " + element.textContent.slice(0, 40))"""
INTERACTIVE = "button[data-move], input, select, #compare, a.zoom, .tip"


def printed(page):
    """Show it as on paper, of somebody whose screen is dark."""
    page.set_viewport_size({"width": PAPER_PX, "height": 1000})
    page.emulate_media(media="print", color_scheme="dark")
    return page


def inks(page, *selectors):
    """Colours of text and of what is behind it."""
    found = "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
    return {tuple(page.locator(selector).first.evaluate(found)) for selector in selectors}


BLACK_ON_PAPER = ("rgb(0, 0, 0)", "rgba(0, 0, 0, 0)")


def test_a_printed_report_is_black_on_white_and_nothing_is_cut(opened, stored):
    page = opened(stored, color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    printed(page)
    assert inks(page, "header.verdict", "#verdict", ".chip", ".check p") <= {BLACK_ON_PAPER}
    assert inks(page, "body") == {("rgb(0, 0, 0)", "rgb(255, 255, 255)")}
    eventually(page, f"({PAINTED})(['--leader'])[0]")
    assert page.locator(INTERACTIVE).locator("visible=true").count() == 0
    assert page.locator("#controls .dot.ok").is_visible(), "the legend of the chart stays"
    assert page.evaluate(CUT) == []
    page.emulate_media(media="screen", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    eventually(page, f"({PAINTED})(['--leader'])[0]")


def test_a_printed_index_is_black_on_white_and_nothing_is_cut(new_page, folder):
    entries = catalogue(folder)
    day = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    many = [
        replace(
            entry,
            row=replace(
                entry.row,
                run=f"{day + dt.timedelta(days=n):%Y%m%dT%H%M%SZ}-seed{n}-ab{n:02}",
                started=day + dt.timedelta(days=n),
                build=f"4.3.1, image sha256:{'0123456789abcdef' * 4}",
                faults="disk-stall 12, clock-skew 2, partition 3",
                mutant=None,
            ),
        )
        for n in range(4)
        for entry in entries
    ]
    path = folder / "many.html"
    path.write_text(render_index(folder, many))
    page = printed(new_page(path.as_uri(), color_scheme="dark"))
    assert inks(page, "h1", ".chip", "#runs td") <= {BLACK_ON_PAPER}
    assert page.locator("figure.trend circle").count() >= 3
    assert page.locator(INTERACTIVE).locator("visible=true").count() == 0
    assert page.evaluate(CUT) == []


def test_the_pages_lead_from_the_index_to_each_report_and_file_from_any_web_server(
    new_page, folder
):
    write_index(folder, catalogue(folder))
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=folder)) as server:
        url = f"http://127.0.0.1:{server.server_port}/index.html"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            page, answers = new_page(url), {}
            page.on("response", lambda answer: answers.update({answer.url: answer.status}))
            for verdict in ("PASS", "FAIL"):
                page.goto(url)
                page.click(f"#runs tr:has(.chip:text-is('{verdict}')) a")
                page.wait_for_selector("#chart[data-drawn]")
                assert page.inner_text("#verdict") == verdict
                for link in page.locator("a[href]").all():
                    target = link.get_attribute("href")
                    if target.startswith("#"):
                        assert page.locator(target).count() == 1, target
                    else:
                        page.goto(urljoin(page.url, target))
                        page.go_back()
            assert len(answers) >= 3
            assert set(answers.values()) == {200}
        finally:
            server.shutdown()
            thread.join()
