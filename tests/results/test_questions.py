"""The page of a FAIL answers what docs/runs.md promises that it answers."""

import html
import re
from pathlib import Path

import pytest
from factory import make_run

from results.judge.pipeline import judge
from results.report.page import write_report

DOCS = Path(__file__).parents[2] / "docs" / "runs.md"


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """A run of a mutant with a stale read: its store, the violating read, and its page."""
    store = make_run(tmp_path_factory.mktemp("runs"), stale_reads=1, mutant="M15")
    results = judge(store)
    write_report(store, results)
    (anomaly,) = [a for c in results.checks if c.checker == "linearizable" for a in c.anomalies]
    read = max(anomaly["window"], key=lambda operation: operation["complete_ns"])
    return store, read, store.report_path.read_text()


def part(page, pattern):
    """The text of what matches, as a reader sees it."""
    found = re.search(pattern, page, re.DOTALL)
    assert found is not None, pattern
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", found[0])))


def section(page, name):
    return part(page, rf'<section id="{name}">.*?</section>')


QUESTIONS = {}


def question(number):
    def add(ask):
        QUESTIONS[number] = ask
        return ask

    return add


@question(1)
def promise(page, read, store):
    assert "FAIL Stale read of " in part(page, "<header.*?</header>")
    assert "linearizable, stale-read, key " in part(page, '<dl class="brief".*?</dl>')


@question(2)
def operation(page, read, store):
    story = section(page, "story")
    assert f'read {read["key"]} with "{read["output"]}"' in story
    assert f"<td>{read['index']}</td>" in page
    assert re.search(rf'"operations":\[[^]]*\b{read["index"]}\b', page)


@question(3)
def answered(page, read, store):
    assert f"{read['node']} answered read {read['key']}" in section(page, "story")


@question(4)
def leader(page, read, store):
    assert re.search(r"\(n\d: leader in epoch \d\)", section(page, "story"))
    assert re.search(r">n\d leads</text>", page)


@question(5)
def fault(page, read, store):
    assert "n2 was cut off" in section(page, "story")
    assert "partition" in part(page, r'<figure class="timeline.*?</figure>')


@question(6)
def effect(page, read, store):
    assert "partition n2 34.000 s 42.050 s yes yes" in section(page, "faults")


@question(7)
def logs(page, read, store):
    story = section(page, "story")
    assert "became leader of epoch 4" in story
    assert re.search(r"appended offsets? \d+", story)
    assert re.search(r'nodes/n\d/trace\.jsonl, "t":\d+', story)


@question(8)
def key(page, read, store):
    assert f'"keys":["{read["key"]}"]' in part(page, r'<script type="application/json".*?</script>')
    assert "Key" in section(page, "one-key")


@question(9)
def build(page, read, store):
    assert "mutant M15: this node is deliberately faulty." in part(page, '<p class="mutant".*?</p>')
    assert "system kraft 0.1.0" in part(page, '<dl class="facts">.*?</dl>')


@question(10)
def repeat(page, read, store):
    found = section(page, "repeat")
    assert "kraftprobe run --campaign RUN/plan.json" in found
    assert "kraftprobe reproduce RUN" in found
    assert str(store.folder) not in found
    assert f"seed {store.plan()['seed']}" in found


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 11))
def test_the_page_answers_the_question(red, number):
    store, read, page = red
    QUESTIONS[number](page, read, store)


def test_each_question_of_the_page_of_documentation_is_asked():
    listed = [int(n) for n in re.findall(r"^\| (\d+) \| [^|]+\?", DOCS.read_text(), re.MULTILINE)]
    assert listed == sorted(QUESTIONS) == list(range(1, 11))
